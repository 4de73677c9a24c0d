//! Sends events to a monitoring endpoint with `POST {"events": […]}`, in batches and with retries.
//!
//! ```no_run
//! use std::time::Duration;
//! use runlore::push::Pusher;
//! use runlore::tracker::Tracker;
//!
//! let pusher = Pusher::new("https://monitoring.example.com/api/metrics")?
//!     .header("Authorization", "Bearer …")
//!     .timeout(Duration::from_secs(5))
//!     .spool("spool", 64 << 20); // holds batches while the endpoint is unreachable
//! let tracker = Tracker::builder().push(pusher).start()?;
//! # Ok::<(), runlore::Error>(())
//! ```
//!
//! A batch counts as delivered once the endpoint responds with status 2xx. Without a response, or
//! with 408, 425, 429 or 5xx, the batch is retried with increasing delays. Any other status is a
//! refusal, which is counted and reported. A retried batch keeps its `Idempotency-Key`, so that an
//! endpoint whose response was lost can recognise the duplicate.

mod batch;
mod client;
mod live;
mod spool;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ureq::http::{HeaderName, HeaderValue};

use batch::Batch;
use client::{Answer, Client};
use runlore_core::record::scrub;
use runlore_core::{Error, ErrorKind, Result};
use runlore_events::events::{Schema, Target, TelemetryEvent};
use runlore_events::tracker::{OpenOutlet, Outlet};

/// The endpoint for events, and how to send them.
#[derive(Clone)]
pub struct Pusher {
    url: String,
    headers: Vec<(String, String)>,
    batch_events: usize,
    timeout: Duration,
    retries: u32,
    backoff: Duration,
    spool: Option<(PathBuf, u64)>,
    target: Target,
}

/// Shows no secrets: headers appear by name only.
impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, headers, batch_events, timeout, retries, backoff, spool, target } = self;
        let headers: Vec<_> = headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Pusher")
            .field("url", &scrub(url))
            .field("headers", &headers)
            .field("batch_events", batch_events)
            .field("timeout", timeout)
            .field("retries", retries)
            .field("backoff", backoff)
            .field("spool", spool)
            .field("target", target)
            .finish()
    }
}

/// The result of a push.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Pushed {
    /// The number of events that the endpoint accepted.
    pub sent: u64,
    /// The number of events that it refused.
    pub refused: u64,
    /// The number of events that the schema cannot represent.
    pub invalid: u64,
    /// The number of requests made.
    pub requests: u64,
    /// The reason of the last refusal.
    pub last_refusal: Option<String>,
}

impl Pusher {
    /// Creates a pusher for this URL.
    ///
    /// # Errors
    ///
    /// If this is not an HTTP or HTTPS URL with a host.
    pub fn new(url: &str) -> Result<Self> {
        let parsed = ureq::http::Uri::try_from(url).ok();
        let is_fine = parsed.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        if !is_fine {
            let url = scrub(url);
            return Err(Error::new(
                ErrorKind::Settings,
                format!(
                    "`{url}` is no URL that events can be sent to: give one like https://host/path"
                ),
            ));
        }
        Ok(Self {
            url: url.to_owned(),
            headers: Vec::new(),
            batch_events: 500,
            timeout: Duration::from_secs(10),
            retries: 5,
            backoff: Duration::from_millis(500),
            spool: None,
            target: Schema::V4.into(),
        })
    }

    /// Adds a header to every request. An invalid one is reported when sending begins.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the maximum number of events per request [default: 500].
    #[must_use]
    pub fn batch(mut self, events: usize) -> Self {
        self.batch_events = events.max(1);
        self
    }

    /// Sets the timeout of a request, including its response [default: 10 s].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often [`push`](Self::push) retries a batch [default: 5]. A tracker retries as long
    /// as it runs.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the delay before the first retry [default: 500 ms]. It doubles with each retry, up to
    /// 30 s.
    #[must_use]
    pub fn backoff(mut self, first: Duration) -> Self {
        self.backoff = first;
        self
    }

    /// Sets a folder that holds a tracker's batches until the endpoint has accepted them, up to
    /// this many bytes. Beyond that, the oldest batches are dropped and counted. However the
    /// process ends, the next tracker with this spool sends what is left. Without a spool, up to 8
    /// MiB wait in memory.
    #[must_use]
    pub fn spool(mut self, folder: impl Into<PathBuf>, bytes: u64) -> Self {
        self.spool = Some((folder.into(), bytes));
        self
    }

    /// Sets the format of the events [default: schema 4].
    #[must_use]
    pub fn target(mut self, target: impl Into<Target>) -> Self {
        self.target = target.into();
        self
    }

    /// Checks for headers that can never be sent. Header values may be secrets, so neither they nor
    /// anything that may be part of one is shown.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, value) in &self.headers {
            let what = if HeaderName::try_from(name).is_err() {
                let begins = name.split_whitespace().next().unwrap_or_default();
                format!(
                    "the header that begins with `{begins}` cannot be sent: its name must be of letters, digits and dashes"
                )
            } else if HeaderValue::try_from(value).is_err() {
                format!(
                    "the header `{name}` cannot be sent: its value must be one line of plain text"
                )
            } else {
                continue;
            };
            return Err(Error::new(ErrorKind::Settings, what));
        }
        Ok(())
    }

    /// Sends events, and waits until the endpoint has accepted or refused all of them.
    ///
    /// # Errors
    ///
    /// If a header is invalid, or the endpoint stays unreachable after all retries. The error
    /// contains the number of events sent before.
    pub fn push(&self, events: impl IntoIterator<Item = TelemetryEvent>) -> Result<Pushed> {
        self.check()?;
        let client = Client::new(self);
        let mut pushed = Pushed::default();
        let mut batch = Batch::new();
        for event in events {
            if batch.add(&event, self.target).is_err() {
                pushed.invalid += 1;
            }
            if batch.count() >= self.batch_events {
                self.deliver(&client, std::mem::replace(&mut batch, Batch::new()), &mut pushed)?;
            }
        }
        if batch.count() > 0 {
            self.deliver(&client, batch, &mut pushed)?;
        }
        Ok(pushed)
    }

    /// Sends a batch until it is accepted or refused.
    fn deliver(&self, client: &Client, batch: Batch, pushed: &mut Pushed) -> Result<()> {
        let count = batch.count() as u64;
        let parcel = batch.finish();
        let mut wait = self.backoff;
        for tried in 0.. {
            pushed.requests += 1;
            match client.send(&parcel) {
                Answer::Taken => pushed.sent += count,
                Answer::Refused(why) => {
                    pushed.refused += count;
                    pushed.last_refusal = Some(why);
                }
                Answer::Away { why, after } => {
                    if tried >= self.retries {
                        let (url, sent) = (scrub(&self.url), pushed.sent);
                        let what =
                            format!("{url} does not take events: {why}; {sent} were sent before");
                        return Err(Error::new(ErrorKind::Store, what));
                    }
                    std::thread::sleep(client::pause(after, wait));
                    wait = (wait * 2).min(client::LONGEST_WAIT);
                    continue;
                }
            }
            return Ok(());
        }
        Ok(())
    }
}

impl OpenOutlet for Pusher {
    fn open(self) -> Result<Box<dyn Outlet>> {
        Ok(Box::new(live::Live::start(self)?))
    }
}
