//! Records in an SQLite file, and questions about them.
//!
//! ```text
//! cargo run --example query_sqlite --features sqlite
//! ```

use runlore::provenance::Subject;
use runlore::query::{Collection, Filter, Pipeline, field};
use runlore::{Provenance, telemetry_task};

#[telemetry_task(output = "sample")]
fn draw(seed: u64) -> Vec<f64> {
    (1..=8).map(|n| ((seed * n * 2_654_435_761) % 1000) as f64 / 1000.0).collect()
}

#[telemetry_task(output = "mean")]
fn mean(sample: &[f64]) -> Result<f64, String> {
    let mean = sample.iter().sum::<f64>() / sample.len() as f64;
    if mean > 0.55 { Err(format!("a mean of {mean:.3} is suspicious")) } else { Ok(mean) }
}

fn main() -> runlore::Result<()> {
    let file = "runlore/samples.db";
    let run = runlore::workflow("samples").store(format!("sqlite://{file}")).start()?;
    let id = run.id().to_owned();
    for seed in 1..=12 {
        _ = mean(&draw(seed));
    }
    run.finish()?;

    let records = Provenance::open(file)?;
    let of_this_run = || field("workflow_id").eq(&*id);

    println!("what failed, the last first:");
    let failed = field("status").eq("ERROR").and(of_this_run());
    for task in records.tasks().filter(failed).sort("-started_at").limit(3).run()? {
        let task = task?;
        println!("  {}  {}", task.name(), task.error_message().unwrap_or_default());
    }

    println!("\nthe same as text, only two fields:");
    let filter = Filter::parse(r#"{"generated.mean": {"$gt": 0.5}}"#)?.and(of_this_run());
    for document in
        records.tasks().filter(filter).fields(["activity_id", "generated.mean"]).run()?
    {
        println!("  {}", document?);
    }

    println!("\nhow long each activity took:");
    for group in records.summary(of_this_run())?.groups() {
        if let Some(spread) = group.duration {
            println!(
                "  {:<6} {:>3} tasks, half of them in {:?}",
                group.name(),
                group.tasks,
                spread.p50
            );
        }
    }

    println!("\na pipeline, as MongoDB has them:");
    let pipeline = Pipeline::parse(
        r#"[{"$group": {"_id": "$status", "tasks": {"$sum": 1}}}, {"$sort": {"_id": 1}}]"#,
    )?;
    for document in records.aggregate(Collection::Tasks, &pipeline)? {
        println!("  {}", document?);
    }

    println!("\nwhere the first sample went:");
    let first =
        records.tasks().filter(field("activity_id").eq("draw").and(of_this_run())).first()?;
    if let Some(task) = first {
        let lineage = records.lineage_of(Subject::Task(task.task_id))?;
        for value in &lineage.values {
            let used: Vec<_> =
                value.used_by.iter().filter_map(|it| it.activity_id.as_deref()).collect();
            println!("  {} was used by {}", value.hash, used.join(", "));
        }
    }
    println!(
        "\nTo ask more: cargo run -p runlore-cli -- --store {file} query '{{\"status\": \"ERROR\"}}'"
    );
    Ok(())
}
