//! A web service with a cache: tasks look it up and fill it, and a thread flushes it. All wait at one lock.
//!
//!     cargo run --release                 two seconds of requests by the program itself, and how long they took
//!     cargo run --release -- serve        serves at port 8080 until it is ended: curl localhost:8080/key
//!
//! No guard lives across an `.await` here, so the tasks may move between threads without the feature `send_guard`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use fairlock::{RwLock, RwLockAsyncExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Cache = RwLock<HashMap<String, String>>;

/// What the cache saves: the answer of another service.
async fn fetch(key: &str) -> String {
    tokio::time::sleep(Duration::from_millis(2)).await;
    key.chars().rev().collect()
}

async fn look_up(State(cache): State<Arc<Cache>>, Path(key): Path<String>) -> String {
    // The guard is gone at the end of this statement.
    let known = cache.read_async().await.get(&key).cloned();
    if let Some(value) = known {
        return value;
    }
    let value = fetch(&key).await;
    cache.write_async().await.insert(key, value.clone());
    value
}

/// What a thread does: it writes the cache elsewhere, say. Returns how long it waited for the lock.
fn flush(cache: &Cache) -> Duration {
    let came = Instant::now();
    let mut entries = cache.write();
    let waited = came.elapsed();
    entries.clear();
    waited
}

/// A client's request; returns the answer.
async fn request(stream: &mut TcpStream, key: &str) -> std::io::Result<String> {
    let request = format!("GET /{key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer[..length]);
    Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let serves = std::env::args().nth(1).is_some_and(|argument| argument == "serve");
    let cache = Arc::new(Cache::default());
    let service = Router::new().route("/{key}", get(look_up)).with_state(Arc::clone(&cache));
    let listener = TcpListener::bind(if serves { "0.0.0.0:8080" } else { "127.0.0.1:0" }).await?;
    let address = listener.local_addr()?;

    let ends = Arc::new(AtomicBool::new(false));
    let flusher = thread::spawn({
        let (cache, ends) = (Arc::clone(&cache), Arc::clone(&ends));
        move || {
            let mut longest = Duration::ZERO;
            while !ends.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
                longest = longest.max(flush(&cache));
            }
            longest
        }
    });
    if serves {
        return axum::serve(listener, service).await;
    }

    let server = tokio::spawn(async move { axum::serve(listener, service).await });
    let (count, longest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let end = Instant::now() + Duration::from_secs(2);
    let clients = (0..32).map(|client| {
        let (count, longest) = (Arc::clone(&count), Arc::clone(&longest));
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            for number in 0.. {
                let (key, came) = (format!("key{}", (client + number) % 8), Instant::now());
                if came >= end {
                    break;
                }
                let answer = request(&mut stream, &key).await?;
                assert!(key.chars().rev().eq(answer.chars()), "{key} is not {answer}");
                count.fetch_add(1, Ordering::Relaxed);
                longest.fetch_max(came.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
            Ok::<_, std::io::Error>(())
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client ends")?;
    }
    ends.store(true, Ordering::Relaxed);
    let waited = tokio::task::spawn_blocking(|| flusher.join()).await.expect("it runs");
    server.abort();
    println!(
        "32 clients, 2 s: {} requests, the longest {:.1} ms; the thread that flushes waited for at most {:.2} ms",
        count.load(Ordering::Relaxed),
        longest.load(Ordering::Relaxed) as f64 / 1000.0,
        waited.expect("the flusher ends").as_secs_f64() * 1000.0,
    );
    Ok(())
}
