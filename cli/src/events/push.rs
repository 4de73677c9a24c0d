//! `runlore events push`: sends the events of a file or a sink to a monitoring endpoint.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use runlore::events::Target;
use runlore::push::Pusher;

use super::convert::schema;
use super::input::{ProblemPrinter, Reading};
use super::track::some_time;
use crate::Done;
use crate::failure::{Failure, say};
use crate::out::stdout;
use crate::units::counted;

/// Send the events of a file or a sink to a monitoring endpoint
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events push run.jsonl https://monitoring.example.com/api/metrics
  runlore events push sink/ http://localhost:8080/ --header 'Authorization: Bearer …'

Each request is a POST of {\"events\": [...]}. It is retried if the endpoint does not respond, or responds with 408,
425, 429 or 5xx. Exit codes: 0 the endpoint accepted all events, 1 it did not.")]
pub(crate) struct Args {
    /// An event file, or the folder of a sink
    file: PathBuf,

    /// The URL of the endpoint
    url: String,

    /// Number of events per request
    #[arg(long, value_name = "N", default_value = "500", value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,

    /// Number of retries per request
    #[arg(long, value_name = "N", default_value = "5")]
    retries: u32,

    /// Timeout of a request
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = some_time)]
    timeout: Duration,

    /// A header for each request: `Name: value`
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,

    /// The schema of the events: 2, 3 or 4
    #[arg(long, value_name = "N", default_value = "4", value_parser = schema)]
    schema: runlore::events::Schema,

    #[command(flatten)]
    reading: Reading,

    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let pusher = Pusher::new(&args.url)?
        .batch(args.batch as usize)
        .retries(args.retries)
        .timeout(args.timeout)
        .target(Target::from(args.schema));
    let pusher = with_headers(pusher, &args.header)?;
    let mut told = ProblemPrinter::default();
    let mut wrong = 0_u64;
    // Send in parts, so that a file of any size needs the memory of only a few requests.
    let part = args.batch as usize * 16;
    let mut waiting = Vec::with_capacity(part.min(16_384));
    let mut sums = Sums::default();
    args.reading.each(&args.file, |event, _| {
        match event {
            Ok(event) => waiting.push(event),
            Err(problem) => wrong += u64::from(told.add(&problem)),
        }
        if waiting.len() >= part {
            sums.add(&pusher, std::mem::take(&mut waiting))?;
        }
        Ok(())
    })?;
    sums.add(&pusher, waiting)?;
    told.finish();
    if let Some(why) = &sums.last_refusal {
        say(&format!("the endpoint rejected {}: {why}", counted(sums.refused, "event", "events")));
    }
    let mut out = stdout();
    if args.json {
        let told = serde_json::json!({
            "sent": sums.sent,
            "refused": sums.refused,
            "invalid": sums.invalid + wrong,
            "requests": sums.requests,
        });
        writeln!(out, "{told}")?;
    } else {
        let events = counted(sums.sent, "event", "events");
        writeln!(out, "{events} sent in {}", counted(sums.requests, "request", "requests"))?;
        if sums.invalid > 0 {
            let events = counted(sums.invalid, "event", "events");
            say(&format!("{events} cannot be represented in schema {}", args.schema.number()));
        }
    }
    out.flush()?;
    let all_taken = sums.refused + sums.invalid + wrong == 0;
    Ok(if all_taken { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Adds headers, written as `Name: value`.
pub(super) fn with_headers(mut pusher: Pusher, headers: &[String]) -> Result<Pusher, Failure> {
    for header in headers {
        let Some((name, value)) = header.split_once(':') else {
            return Err(Failure::new("write a header as `Name: value`"));
        };
        pusher = pusher.header(name.trim(), value.trim());
    }
    Ok(pusher)
}

#[derive(Default)]
struct Sums {
    sent: u64,
    refused: u64,
    invalid: u64,
    requests: u64,
    last_refusal: Option<String>,
}

impl Sums {
    fn add(
        &mut self,
        pusher: &Pusher,
        events: Vec<runlore::events::TelemetryEvent>,
    ) -> Result<(), Failure> {
        let pushed = pusher.push(events).map_err(|error| match self.sent {
            0 => Failure::from(error),
            sent => Failure::new(format!("{error}; {sent} before that")),
        })?;
        self.sent += pushed.sent;
        self.refused += pushed.refused;
        self.invalid += pushed.invalid;
        self.requests += pushed.requests;
        self.last_refusal = pushed.last_refusal.or(self.last_refusal.take());
        Ok(())
    }
}
