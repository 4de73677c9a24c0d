#![allow(dead_code, non_camel_case_types, unused_macros)]

use runlore::telemetry_task;

struct Result;
struct Option;
struct Some;
struct None;
struct Ok;
struct Err;
struct Vec;
struct String;
struct Box;
struct Pin;
struct bool;
struct str;
struct u32;
struct usize;
struct Site;
struct Default;
trait FnOnce {}
trait Future {}
trait Iterator {}
trait Drop {}
mod std {}
mod core {}
mod runlore_macros {}
mod inventory {}
mod __private {}

macro_rules! env {
    ($($t:tt)*) => {
        compile_error!("mine")
    };
}
macro_rules! file {
    ($($t:tt)*) => {
        compile_error!("mine")
    };
}
macro_rules! module_path {
    ($($t:tt)*) => {
        compile_error!("mine")
    };
}
macro_rules! pin {
    ($($t:tt)*) => {
        compile_error!("mine")
    };
}
macro_rules! used {
    ($($t:tt)*) => {
        compile_error!("mine")
    };
}

#[telemetry_task(subtype = "x", telemetry(cpu), metadata(a = 1), fail_if = *ret == 3)]
fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[telemetry_task(used(c = 1))]
async fn later(a: i32) -> ::core::result::Result<i32, ()> {
    ::core::result::Result::Ok(a)
}

#[telemetry_task]
fn block(a: i32) -> impl ::core::future::Future<Output = i32> {
    async move { a }
}

#[telemetry_task(future)]
fn boxed(a: i32) -> ::core::pin::Pin<::std::boxed::Box<dyn ::core::future::Future<Output = i32>>> {
    ::std::boxed::Box::pin(::core::future::ready(a))
}

#[tokio::test]
async fn runs() {
    assert_eq!(add(1, 2), 3);
    assert!(matches!(later(1).await, ::core::result::Result::Ok(1)));
    assert_eq!(block(1).await, 1);
    assert_eq!(boxed(1).await, 1);
}
