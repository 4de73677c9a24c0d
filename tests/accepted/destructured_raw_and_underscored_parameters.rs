#![deny(warnings)]

use runlore::telemetry_task;

struct Point {
    x: i32,
    y: i32,
}

struct Meters(f64);

#[telemetry_task(skip(d))]
fn patterns(
    (a, b): (i32, i32),
    Point { x, y: height }: Point,
    [c, .., d]: [i32; 3],
    Meters(m): Meters,
    &e: &i32,
    whole @ (f, _): (i32, i32),
    _: i32,
) -> i32 {
    a + b + x + height + c + d + m as i32 + e + f + whole.1
}

#[telemetry_task(skip(r#fn))]
fn r#match(r#type: i32, r#fn: i32) -> i32 {
    r#type + r#fn
}

#[telemetry_task]
fn unused(_ignored: i32, _: &str, mut counted: i32) -> i32 {
    counted += 1;
    counted
}

#[telemetry_task]
async fn later((a, b): (i32, i32), Point { x, .. }: Point, _: i32) -> i32 {
    a + b + x
}

/// Names that the expansion might use itself.
#[telemetry_task(generated(doubled = ret * 2))]
fn same_names(ret: i32, __ret: i32, __slot: i32, __body: i32, __inputs: i32) -> i32 {
    ret + __ret + __slot + __body + __inputs
}

#[tokio::test]
async fn runs() {
    let point = Point { x: 3, y: 4 };
    assert_eq!(patterns((1, 2), point, [5, 0, 6], Meters(7.0), &8, (9, 10), 0), 55);
    assert_eq!(r#match(1, 2), 3);
    assert_eq!(unused(1, "", 2), 3);
    assert_eq!(later((1, 2), Point { x: 3, y: 4 }, 0).await, 6);
    assert_eq!(same_names(1, 2, 3, 4, 5), 15);
}
