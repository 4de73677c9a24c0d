//! Records in MongoDB, and questions that the server answers.
//!
//! It needs a server, and starts none. With one at hand:
//!
//! ```sh
//! RUNLORE_EXAMPLE_MONGODB=mongodb://localhost:27017/runlore_example cargo run --example query_mongodb --features mongodb
//! ```

use runlore::query::{Collection, Pipeline, field};
use runlore::{Provenance, telemetry_task};

#[telemetry_task]
fn load(part: u32) -> Result<u32, String> {
    if part == 3 { Err(format!("part {part} is damaged")) } else { Ok(part * 100) }
}

#[telemetry_task]
fn fit(lr: f64) -> f64 {
    let rows: u32 = (0..5).filter_map(|part| load(part).ok()).sum();
    f64::from(rows) * lr
}

fn main() -> Result<(), runlore::Error> {
    let Ok(uri) = std::env::var("RUNLORE_EXAMPLE_MONGODB") else {
        println!(
            "set RUNLORE_EXAMPLE_MONGODB to a server, such as mongodb://localhost:27017/runlore_example"
        );
        return Ok(());
    };

    let run = runlore::workflow("training").store(&*uri).start()?;
    let id = run.id().to_owned();
    for lr in [0.1, 0.01] {
        fit(lr);
    }
    run.finish()?;

    let records = Provenance::open(&uri)?;
    println!("{}", records.tree(&id)?);

    // By an index.
    let failed =
        records.tasks().filter(field("workflow_id").eq(&*id)).filter(field("status").eq("ERROR"));
    for task in failed.sort("-started_at").limit(10).to_vec()? {
        println!("{} failed: {}", task.name(), task.error_message().unwrap_or_default());
    }

    // In the server.
    let means = Pipeline::parse(
        r#"[{"$group": {"_id": "$activity_id", "tasks": {"$sum": 1}, "mean_ns": {"$avg": "$duration_ns"}}},
            {"$sort": {"mean_ns": -1}}]"#,
    )?;
    for group in records.aggregate(Collection::Tasks, &means)? {
        println!("{}", group?);
    }
    Ok(())
}
