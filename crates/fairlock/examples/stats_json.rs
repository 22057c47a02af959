//! The statistics of a service's locks over HTTP, as JSON, with nothing but the standard library.
//!
//! `cargo run -p fairlock --example stats_json -- 127.0.0.1:8080` answers until it is ended:
//! `curl http://127.0.0.1:8080`. Without an address it asks itself once, and prints the answer.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use fairlock::stats::{self, Builder};

static SESSIONS: stats::RwLock<Option<HashMap<u32, u32>>> = Builder::new("sessions").rwlock(None);

/// What the service does.
fn work() {
    for request in 0.. {
        let user = request % 100;
        let visits = SESSIONS.read().as_ref().and_then(|all| all.get(&user).copied());
        if request % 10 == 0 {
            SESSIONS.write().get_or_insert_default().insert(user, visits.unwrap_or(0) + 1);
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// The head of the request is read to its end, and not looked at.
fn answer(mut client: TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let body = stats::snapshot().to_json();
    let length = body.len();
    write!(client, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")?;
    write!(client, "Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

fn main() -> io::Result<()> {
    SESSIONS.write().get_or_insert_default();
    for _ in 0..4 {
        thread::spawn(work);
    }
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
    if address.is_none() {
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        client.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
        answer(listener.accept()?.0)?;
        return io::copy(&mut client, &mut io::stdout()).map(drop);
    }
    for client in listener.incoming() {
        // A client that goes away early is no reason to end.
        if let Err(error) = client.and_then(answer) {
            eprintln!("not answered: {error}");
        }
    }
    Ok(())
}
