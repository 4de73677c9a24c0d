use runlore::telemetry_task;
use std::fmt::Display;

#[telemetry_task]
fn shout(text: impl AsRef<str> + Copy, times: impl Into<usize>) -> impl Display {
    text.as_ref().to_uppercase().repeat(times.into())
}

#[telemetry_task]
fn evens(limit: u32) -> impl Iterator<Item = u32> + Clone {
    (0..limit).filter(|n| n % 2 == 0)
}

#[telemetry_task]
fn adder(by: i32) -> impl Fn(i32) -> i32 {
    move |x| x + by
}

#[telemetry_task]
fn maybe(ok: bool) -> Result<impl Iterator<Item = u8>, String> {
    if !ok {
        return Err("no".to_owned());
    }
    Ok([1, 2, 3].into_iter())
}

#[telemetry_task]
fn words<'a>(text: &'a str) -> impl Iterator<Item = &'a str> + 'a {
    text.split(' ')
}

#[telemetry_task]
fn call(run: impl FnOnce(&str) -> usize) -> usize {
    run("four")
}

#[telemetry_task]
async fn later(items: impl IntoIterator<Item = u8>) -> impl Iterator<Item = u8> {
    items.into_iter().map(|n| n + 1).collect::<Vec<_>>().into_iter()
}

#[tokio::test]
async fn runs() {
    assert_eq!(shout("ab", 2_usize).to_string(), "ABAB");
    assert_eq!(evens(7).clone().sum::<u32>(), 12);
    assert_eq!(adder(3)(4), 7);
    assert_eq!(maybe(true).unwrap().count(), 3);
    assert_eq!(maybe(false).err().unwrap(), "no");
    assert_eq!(words("a b c").count(), 3);
    assert_eq!(call(str::len), 4);
    assert_eq!(later([1, 2]).await.sum::<u8>(), 5);
}
