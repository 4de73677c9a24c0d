#![deny(warnings)]

use runlore::telemetry_task;

#[telemetry_task]
fn exit(code: i32) -> ! {
    std::process::exit(code)
}

#[telemetry_task]
fn choose(leave: bool) -> i32 {
    if leave { exit(0) } else { 1 }
}

#[test]
fn runs() {
    assert_eq!(choose(false), 1);
}
