#![allow(clippy::unused_unit)]

use runlore::telemetry_task;

#[telemetry_task]
fn nothing() {}

#[telemetry_task()]
fn unit(out: &mut Vec<i32>, value: i32) -> () {
    out.push(value);
}

#[telemetry_task]
fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[telemetry_task]
fn countdown(mut n: u32) -> u32 {
    let mut steps = 0;
    while n > 0 {
        n -= 1;
        steps += 1;
        if steps == 100 {
            return steps;
        }
    }
    steps
}

#[telemetry_task]
fn factorial(n: u64) -> u64 {
    if n == 0 { 1 } else { n * factorial(n - 1) }
}

#[telemetry_task]
fn outer(x: i32) -> i32 {
    #[telemetry_task]
    fn inner(x: i32) -> i32 {
        x * 2
    }
    inner(x) + 1
}

#[test]
fn runs() {
    nothing();
    let mut out = Vec::new();
    unit(&mut out, 3);
    assert_eq!(out, [3]);
    assert_eq!(add(1, 2), 3);
    assert_eq!(countdown(7), 7);
    assert_eq!(countdown(1000), 100);
    assert_eq!(factorial(10), 3_628_800);
    assert_eq!(outer(4), 9);

    // It is still a function, with its own type.
    let pointer: fn(i32, i32) -> i32 = add;
    assert_eq!(pointer(2, 2), 4);
}
