//! A connection with its own async runtime, separate from that of the program.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use mongodb::{Client, Database};
use tokio::runtime::{Builder, Runtime};

use super::address::Address;
use super::problem::explain;
use runlore_core::{Error, ErrorKind, Result};

/// A connection that is opened when needed, and opened again in a forked child.
#[derive(Debug)]
pub(super) struct Link {
    address: Address,
    made: Mutex<Option<Arc<Connection>>>,
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self { address, made: Mutex::default() }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn get(&self) -> Result<Arc<Connection>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some(connection) if connection.is_of_this_process() => Ok(Arc::clone(connection)),
            _ => {
                let connection = Arc::new(Connection::open(&self.address)?);
                *made = Some(Arc::clone(&connection));
                Ok(connection)
            }
        }
    }

    pub(super) fn close(&self) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A client with its runtime.
pub(super) struct Connection {
    process: u32,
    /// `Some` until the connection is dropped.
    inside: Option<(Runtime, Database)>,
    /// The server's URI for messages.
    shown: String,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.shown).finish()
    }
}

impl Connection {
    /// Creates the client. Nothing is sent yet, so the first command shows whether the server
    /// answers.
    fn open(address: &Address) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(4)
            .thread_name("runlore-mongodb")
            .enable_all()
            .build()
            .map_err(|error| {
                let text = "cannot start the thread that talks to MongoDB";
                Error::new(ErrorKind::Store, text).with_source(error)
            })?;
        let shown = address.shown();
        let (target, name, told) = (address.clone(), address.database().to_owned(), shown.clone());
        let database = wait(&runtime, async move {
            let options = target.options().await?;
            let client = Client::with_options(options).map_err(|error| explain(&told, &error))?;
            Ok(client.database(&name))
        });
        match database {
            Ok(database) => {
                Ok(Self { process: std::process::id(), inside: Some((runtime, database)), shown })
            }
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn inside(&self) -> &(Runtime, Database) {
        self.inside.as_ref().expect("it is there until the connection is dropped")
    }

    pub(super) fn database(&self) -> Database {
        self.inside().1.clone()
    }

    /// Returns the server's URI for messages.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Runs a future on the connection's own thread and blocks until it is done. Works on any
    /// thread.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        wait(&self.inside().0, work)
    }

    /// Like `run`, with a timeout.
    pub(super) fn run_for<T: Send + 'static>(
        &self,
        longest: Duration,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let shown = self.shown.clone();
        wait(&self.inside().0, async move {
            tokio::time::timeout(longest, work).await.unwrap_or_else(|_| {
                let text = format!("{shown} has not answered for {} s", longest.as_secs());
                Err(Error::new(ErrorKind::Store, text))
            })
        })
    }

    /// Drops a value of the driver inside the runtime, because that may send a message to the
    /// server.
    pub(super) fn drop_there<T>(&self, what: T) {
        let _entered = self.inside().0.enter();
        drop(what);
    }
}

/// Blocks without entering the runtime, because the caller may be inside another one.
fn wait<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (done, result) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        _ = done.send(work.await);
    });
    result.recv().unwrap_or_else(|_| {
        let text = "the driver of MongoDB broke off: this is an error in it or in runlore";
        Err(Error::new(ErrorKind::Store, text))
    })
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some((runtime, database)) = self.inside.take() else { return };
        if !self.is_of_this_process() {
            // In a forked child the threads are the parent's. Waiting for them would never end.
            std::mem::forget((runtime, database));
            return;
        }
        {
            let _entered = runtime.enter();
            drop(database);
        }
        // This does not block, and may be called inside another runtime.
        runtime.shutdown_background();
    }
}
