#![no_implicit_prelude]

#[::runlore::telemetry_task(subtype = "x", metadata(a = 1), fail_if = *ret == 3, tags("t"))]
fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[::runlore::telemetry_task]
async fn later(a: i32) -> ::std::result::Result<i32, ::std::string::String> {
    ::std::result::Result::Ok(a)
}

#[::runlore::telemetry_task(future)]
fn boxed(a: i32) -> ::std::pin::Pin<::std::boxed::Box<dyn ::std::future::Future<Output = i32>>> {
    ::std::boxed::Box::pin(::std::future::ready(a))
}

#[test]
fn runs() {
    ::std::assert_eq!(add(1, 2), 3);
    let runtime = ::tokio::runtime::Builder::new_current_thread().build();
    let runtime = ::std::result::Result::unwrap(runtime);
    runtime.block_on(async {
        ::std::assert!(::std::result::Result::is_ok(&later(1).await));
        ::std::assert_eq!(boxed(2).await, 2);
    });
}
