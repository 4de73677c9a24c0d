//! Sends one request and interprets the response.

use std::time::Duration;

use ureq::Agent;

use super::Pusher;
use super::batch::Parcel;
use runlore_core::record::scrub;

/// The maximum wait before a retry, whatever the endpoint requests.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(super) struct Client {
    agent: Agent,
    url: String,
    headers: Vec<(String, String)>,
}

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Taken,
    /// Retrying is pointless.
    Refused(String),
    /// A retry may succeed. The endpoint may have said when.
    Away {
        why: String,
        after: Option<Duration>,
    },
}

impl Client {
    pub(super) fn new(pusher: &Pusher) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(pusher.timeout))
            .http_status_as_error(false)
            // A redirect would send events to a host that the user did not configure.
            .max_redirects(0)
            .user_agent(concat!("runlore/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.into(), url: pusher.url.clone(), headers: pusher.headers.clone() }
    }

    pub(super) fn send(&self, parcel: &Parcel) -> Answer {
        let mut request = self
            .agent
            .post(&self.url)
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", &parcel.key);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        match request.send(&parcel.body[..]) {
            Ok(response) => {
                let after = response.headers().get("retry-after").and_then(|value| {
                    let seconds = value.to_str().ok()?.trim().parse().ok()?;
                    Some(Duration::from_secs(seconds))
                });
                judge(response.status().as_u16(), after)
            }
            // A URL or header that cannot be sent now never can.
            Err(error @ (ureq::Error::Http(_) | ureq::Error::BadUri(_))) => {
                Answer::Refused(scrub(&error.to_string()))
            }
            Err(error) => Answer::Away { why: scrub(&error.to_string()), after: None },
        }
    }
}

/// Returns the wait before the next retry: what the endpoint requests, at least the current backoff
/// and at most [`LONGEST_WAIT`].
pub(super) fn pause(asked: Option<Duration>, wait: Duration) -> Duration {
    asked.unwrap_or(wait).max(wait).min(LONGEST_WAIT)
}

fn judge(status: u16, after: Option<Duration>) -> Answer {
    let why = format!("it answers with status {status}");
    match status {
        200..=299 => Answer::Taken,
        408 | 425 | 429 | 500..=599 => Answer::Away { why, after },
        _ => Answer::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_may_ask_for_longer_pauses_but_not_for_none() {
        let wait = Duration::from_millis(500);
        for (asked, expected) in
            [(None, 500), (Some(0), 500), (Some(3), 3000), (Some(3600), 30_000)]
        {
            let asked = asked.map(Duration::from_secs);
            assert_eq!(pause(asked, wait), Duration::from_millis(expected), "{asked:?}");
        }
        assert_eq!(pause(None, Duration::from_secs(60)), LONGEST_WAIT);
    }
}
