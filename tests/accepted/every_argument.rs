#![allow(clippy::manual_checked_ops)]

use runlore::telemetry_task;
use std::collections::BTreeMap;

struct Model {
    loss: f64,
    #[allow(dead_code)]
    weights: Vec<f64>,
}

const RATE: f64 = 0.1;

#[telemetry_task(
    name = "train the model",
    output = "model",
    skip(data),
    used(rows = data.len(), rate = RATE, epochs = epochs as f64),
    generated(loss = ret.loss, epochs = epochs),
    tags("training", "small"),
    subtype = "learning",
    metadata(author = "someone", seed = 3 + 4),
    telemetry = "light",
    summarise = "full",
    fail_if = ret.loss.is_nan() || ret.loss > 10.0,
)]
fn train(data: &[f64], epochs: u32) -> Result<Model, String> {
    if data.is_empty() {
        return Err("no data".to_owned());
    }
    let loss = data.iter().sum::<f64>() / f64::from(epochs);
    Ok(Model { loss, weights: data.to_vec() })
}

#[telemetry_task(outputs("quotient", "remainder"), telemetry(cpu, mem))]
fn divide(a: u32, b: u32) -> (u32, u32) {
    (a / b, a % b)
}

#[telemetry_task(outputs("quotient", "remainder"), telemetry = (cpu, per_cpu, process_info, mem, disk, network, gpu, energy))]
fn checked(a: u32, b: u32) -> Result<(u32, u32), String> {
    if b == 0 { Err("zero".to_owned()) } else { Ok((a / b, a % b)) }
}

#[telemetry_task(spread, telemetry = "none")]
fn counts(text: &str) -> BTreeMap<char, usize> {
    let mut counts = BTreeMap::new();
    for letter in text.chars() {
        *counts.entry(letter).or_default() += 1;
    }
    counts
}

#[telemetry_task(skip_all, generated(length = ret.len()), telemetry = "default")]
async fn joined(parts: Vec<String>, with: &str) -> String {
    parts.join(with)
}

#[tokio::test]
async fn runs() {
    assert_eq!(train(&[1.0, 2.0], 3).unwrap().loss, 1.0);
    assert_eq!(train(&[], 3).err().unwrap(), "no data");
    assert_eq!(divide(7, 2), (3, 1));
    assert_eq!(checked(7, 2), Ok((3, 1)));
    assert!(checked(7, 0).is_err());
    assert_eq!(counts("aab")[&'a'], 2);
    assert_eq!(joined(vec!["a".to_owned(), "b".to_owned()], "-").await, "a-b");
}
