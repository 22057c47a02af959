//! What the main thread waits for: work is done, or the user pressed Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::error::{Error, INTERRUPTED};

/// What the main thread is told.
pub enum Event<T> {
    /// The work that it waits for is done.
    Done(T),
    /// SIGINT, SIGTERM or SIGHUP.
    Interrupted,
}

/// Where events arrive.
pub struct Events<T> {
    sender: Sender<Event<T>>,
    receiver: Receiver<Event<T>>,
}

impl<T: Send + 'static> Events<T> {
    /// Takes over the signals that end a program. The first of them becomes an event; a second ends
    /// the process at once, and its child ends with it.
    pub fn install() -> Result<Self, Error> {
        static SEEN: AtomicBool = AtomicBool::new(false);
        let (sender, receiver) = channel();
        let from_handler = sender.clone();
        ctrlc::set_handler(move || {
            if SEEN.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(INTERRUPTED));
            }
            // Sending fails only when the receiver is gone, and then nobody waits for the event.
            let _ = from_handler.send(Event::Interrupted);
        })
        .map_err(|error| Error::failed(format!("cannot handle Ctrl-C: {error}")))?;
        Ok(Self { sender, receiver })
    }

    /// The sender for a thread that does the work.
    pub fn sender(&self) -> Sender<Event<T>> {
        self.sender.clone()
    }

    /// The next event, or `None` after `timeout`.
    pub fn next(&self, timeout: Duration) -> Option<Event<T>> {
        match self.receiver.recv_timeout(timeout) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender"),
        }
    }
}
