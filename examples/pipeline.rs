//! A small ETL over real files: read, clean, join, aggregate, write; one of the files is broken.
//!
//! ```text
//! cargo run --example pipeline
//! ```
//!
//! Reads `examples/data`, writes a summary into the system's temporary folder. The records go to `./runlore`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Error};
use std::path::{Path, PathBuf};

use runlore::store::{DEFAULT_FOLDER, jsonl};
use runlore::telemetry_task;

type Row = Vec<String>;

struct Reading {
    station: String,
    temperature: f64,
}

/// Records the file's name and the number of rows, not the rows.
#[telemetry_task(skip(path), used(file = name(path)), generated(rows = ret.len()))]
fn read(path: &Path, columns: &[&str]) -> io::Result<Vec<Row>> {
    let text = fs::read_to_string(path)?;
    let mut rows = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Row>());
    let header = rows.next().unwrap_or_default();
    if header != columns {
        return Err(Error::other(format!("expected the columns {columns:?}, found {header:?}")));
    }
    Ok(rows.filter(|row| row.len() == columns.len()).collect())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Leaves out rows without a temperature, and says how many.
#[telemetry_task(skip(rows), used(rows = rows.len()), generated(kept = ret.0.len(), dropped = ret.1))]
fn clean(rows: Vec<Row>) -> (Vec<Reading>, usize) {
    let before = rows.len();
    let kept: Vec<Reading> = rows
        .into_iter()
        .filter_map(|row| {
            Some(Reading { temperature: row[2].parse().ok()?, station: row[0].clone() })
        })
        .collect();
    let dropped = before - kept.len();
    (kept, dropped)
}

/// One month: read and clean. Its error is recorded here and in `read`, where it came from.
#[telemetry_task(skip(path), used(file = name(path)), generated(readings = ret.len()))]
fn extract(path: &Path) -> io::Result<Vec<Reading>> {
    Ok(clean(read(path, &["station", "day", "temperature"])?).0)
}

/// Each reading with the region of its station; those of unknown stations are counted.
#[telemetry_task(skip_all, used(readings = readings.len()), generated(joined = ret.0.len(), unknown = ret.1))]
fn join(readings: &[Reading], regions: &BTreeMap<String, String>) -> (Vec<(String, f64)>, usize) {
    let joined: Vec<_> = readings
        .iter()
        .filter_map(|reading| Some((regions.get(&reading.station)?.clone(), reading.temperature)))
        .collect();
    let unknown = readings.len() - joined.len();
    (joined, unknown)
}

/// `spread` records each entry of the map under its own name.
#[telemetry_task(skip_all, spread)]
fn aggregate(joined: &[(String, f64)]) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, u32)> = BTreeMap::new();
    for (region, temperature) in joined {
        let (sum, count) = sums.entry(region.clone()).or_default();
        (*sum, *count) = (*sum + temperature, *count + 1);
    }
    sums.into_iter().map(|(region, (sum, count))| (region, sum / f64::from(count))).collect()
}

#[telemetry_task(skip(means), generated(file = name(ret)))]
fn write(means: &BTreeMap<String, f64>) -> io::Result<PathBuf> {
    let path = std::env::temp_dir().join("runlore-temperatures.csv");
    let lines = means.iter().map(|(region, mean)| format!("{region},{mean:.2}\n"));
    fs::write(&path, format!("region,mean\n{}", lines.collect::<String>()))?;
    Ok(path)
}

#[telemetry_task(skip(data), tags("etl"))]
fn pipeline(data: &Path, months: &[&str]) -> io::Result<PathBuf> {
    let stations = read(&data.join("stations.csv"), &["station", "region"])?;
    let regions = stations.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    // A month that cannot be read leaves its record; the others go on.
    let readings: Vec<Reading> = months
        .iter()
        .filter_map(|month| extract(&data.join(month).with_extension("csv")).ok())
        .flatten()
        .collect();
    write(&aggregate(&join(&readings, &regions).0))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    let run = runlore::workflow("pipeline").campaign("temperatures").start()?;
    let id = run.id().to_owned();
    let summary = pipeline(&data, &["january", "february", "march"])?;
    run.finish()?;

    let records = jsonl::load_with(DEFAULT_FOLDER, |record| {
        (record.workflow_id() == Some(&id)).then_some(record)
    })?;
    print!("{}", records.into_tree().render().values(true));
    println!("\n{}\n{}", summary.display(), fs::read_to_string(&summary)?);
    println!("the records are in ./{DEFAULT_FOLDER}/");
    Ok(())
}
