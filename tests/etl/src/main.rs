//! Reads, cleans and sums up 3,000 small files on tokio, as a first program of a user might: default settings, a task for
//! every step, 143 broken files.
//!
//! ```text
//! etl FOLDER          makes the files in FOLDER, works through them, records into FOLDER/runlore
//! etl measure COUNT   compares the CPU time with and without telemetry, over COUNT runs of each
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use runlore::telemetry_task;
use serde::Serialize;

const FILES: usize = 3_000;
const FILES_A_BATCH: usize = 50;

#[derive(Debug, Clone, Serialize)]
struct Reading {
    station: String,
    minute: u32,
    temperature: f64,
}

#[telemetry_task]
async fn read(path: PathBuf) -> std::io::Result<String> {
    tokio::fs::read_to_string(path).await
}

#[telemetry_task]
fn clean(text: &str) -> Result<Vec<Reading>, String> {
    let reading = |line: &str| {
        let mut fields = line.split(',');
        let mut next = || fields.next().ok_or_else(|| format!("a field is missing in `{line}`"));
        let (station, minute, temperature) = (next()?, next()?, next()?);
        let wrong = |field: &str| format!("`{field}` is not a number");
        Ok(Reading {
            station: station.to_owned(),
            minute: minute.parse().map_err(|_| wrong(minute))?,
            temperature: temperature.parse().map_err(|_| wrong(temperature))?,
        })
    };
    text.lines().map(reading).collect()
}

#[telemetry_task(generated(readings = ret.len()))]
async fn load(path: PathBuf) -> Result<Vec<Reading>, String> {
    let text = read(path).await.map_err(|error| error.to_string())?;
    clean(&text)
}

#[telemetry_task(skip(paths), used(files = paths.len()), generated(loaded = ret.len()))]
async fn batch(number: usize, paths: Vec<PathBuf>) -> Vec<Option<f64>> {
    let context = runlore::current();
    let loads = paths.into_iter().map(|path| {
        use runlore::FutureExt as _;
        tokio::spawn(load(path).in_context(context))
    });
    let mut warmest = Vec::new();
    for load in loads.collect::<Vec<_>>() {
        let readings = load.await.ok().and_then(Result::ok);
        warmest.push(
            readings.and_then(|all| {
                all.iter().map(|reading| reading.temperature).max_by(f64::total_cmp)
            }),
        );
    }
    warmest
}

#[telemetry_task(skip(warmest))]
fn summarise(warmest: &[Option<f64>]) -> (usize, f64) {
    let known = warmest.iter().flatten();
    (known.clone().count(), known.copied().fold(f64::MIN, f64::max))
}

#[telemetry_task(skip(folder))]
async fn pipeline(folder: &Path) -> Result<f64, String> {
    let context = runlore::current();
    let paths: Vec<PathBuf> = (0..FILES).map(|number| file(folder, number)).collect();
    let batches = paths.chunks(FILES_A_BATCH).enumerate().map(|(number, paths)| {
        use runlore::FutureExt as _;
        tokio::spawn(batch(number, paths.to_vec()).in_context(context))
    });
    let mut warmest = Vec::new();
    for batch in batches.collect::<Vec<_>>() {
        warmest.extend(batch.await.map_err(|error| error.to_string())?);
    }
    let (loaded, warmest) = summarise(&warmest);
    if loaded < FILES {
        return Err(format!("{} of {FILES} files could not be loaded", FILES - loaded));
    }
    Ok(warmest)
}

fn file(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("station-{number:04}.csv"))
}

/// A day of readings, one a minute, in each file.
fn make_files(folder: &Path) -> std::io::Result<()> {
    let line = |minute: usize| {
        let temperature = minute * 3 % 400;
        format!("north,{minute},{}.{}\n", temperature / 10, temperature % 10)
    };
    let day: String = (0..1_440).map(line).collect();
    for number in 0..FILES {
        let is_broken = number % 21 == 7;
        let text = if is_broken { day.clone() + "north,late,cold\n" } else { day.clone() };
        std::fs::write(file(folder, number), text)?;
    }
    Ok(())
}

fn record(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    make_files(folder)?;
    std::env::set_current_dir(folder)?;
    let run = runlore::workflow("etl").start()?;
    let before = cpu_ms();
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let failed = runtime.block_on(pipeline(folder)).is_err();
    let totals = run.finish()?;
    println!(
        "tasks={} errors={} dropped={} failed={failed} cpu_ms={:.1}",
        totals.tasks,
        totals.errors,
        totals.dropped,
        cpu_ms() - before
    );
    Ok(())
}

/// The CPU time of the process so far.
#[allow(unsafe_code)]
fn cpu_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Runs the program with and without telemetry in turn, and prints what it says and the ratio of the medians.
fn measure(count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..count {
        for (at, telemetry) in [true, false].into_iter().enumerate() {
            let folder = tempfile::tempdir()?;
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(folder.path());
            if !telemetry {
                for part in ["CPU", "MEM", "PROCESS_INFO", "MACHINE_INFO"] {
                    command.env(format!("RUNLORE_TELEMETRY_CAPTURE__{part}"), "no");
                }
            }
            let output = command.output()?;
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            println!("telemetry={telemetry} {said}");
            let time = said.rsplit_once("cpu_ms=").and_then(|(_, time)| time.parse::<f64>().ok());
            times[at].push(time.ok_or_else(|| format!("the program failed: {output:?}"))?);
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let [with, without] = &mut times;
    let (with, without) = (median(with), median(without));
    println!(
        "CPU time with telemetry {with:.0} ms, without {without:.0} ms: {:.3}",
        with / without
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", count] => count.parse().map_err(Into::into).and_then(measure),
        [folder] => record(Path::new(folder)),
        _ => Err("usage: etl FOLDER | etl measure COUNT".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
