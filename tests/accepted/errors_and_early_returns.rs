use runlore::telemetry_task;
use std::num::ParseIntError;

#[telemetry_task]
fn parse(text: &str) -> Result<i32, ParseIntError> {
    let first: i32 = text.parse()?;
    if first == 0 {
        return Ok(-1);
    }
    Ok(first)
}

#[telemetry_task]
fn boxed(text: &str) -> Result<i32, Box<dyn std::error::Error>> {
    let number: i32 = text.parse()?;
    if number < 0 {
        return Err("negative".into());
    }
    Ok(number)
}

#[telemetry_task(fail_if = ret.is_none())]
fn find<'a>(words: &'a [&'a str], start: char) -> Option<&'a str> {
    let found = words.iter().find(|word| word.starts_with(start))?;
    Some(found)
}

#[telemetry_task]
async fn parse_later(text: &str) -> Result<i32, ParseIntError> {
    let first = text.parse::<i32>()?;
    if first == 0 {
        return Ok(-1);
    }
    Ok(first)
}

#[telemetry_task]
fn closes_over<F>(run: F) -> Result<(), String>
where
    F: FnOnce() -> Result<(), String>,
{
    run()
}

#[tokio::test]
async fn runs() {
    assert_eq!(parse("7"), Ok(7));
    assert_eq!(parse("0"), Ok(-1));
    assert!(parse("x").is_err());
    assert_eq!(boxed("-1").unwrap_err().to_string(), "negative");
    assert!(boxed("x").is_err());
    assert_eq!(boxed("5").unwrap(), 5);
    assert_eq!(find(&["one", "two"], 't'), Some("two"));
    assert_eq!(find(&["one", "two"], 'x'), None);
    assert_eq!(parse_later("7").await, Ok(7));
    assert_eq!(parse_later("0").await, Ok(-1));
    assert!(parse_later("x").await.is_err());
    assert_eq!(closes_over(|| Err("no".to_owned())), Err("no".to_owned()));
}
