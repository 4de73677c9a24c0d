#![deny(warnings)]
#![allow(unsafe_code)]

use runlore::telemetry_task;

/// Reads without looking.
///
/// # Safety
/// `pointer` must be valid.
#[telemetry_task]
pub unsafe fn read(pointer: *const i32) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { *pointer }
}

/// # Safety
/// `pointer` must be valid.
#[allow(unsafe_op_in_unsafe_fn)]
#[telemetry_task]
pub unsafe fn read_in_the_old_way(pointer: *const i32) -> i32 {
    *pointer
}

#[telemetry_task]
pub extern "C" fn plus_one(x: i32) -> i32 {
    x + 1
}

/// # Safety
/// `pointer` must be valid for `length` numbers.
#[telemetry_task(skip(pointer))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runlore_ui_sum(pointer: *const i32, length: usize) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { std::slice::from_raw_parts(pointer, length) }.iter().sum()
}

/// # Safety
/// `pointer` must be valid.
#[telemetry_task]
pub async unsafe fn read_later(pointer: *const i32) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { *pointer }
}

#[tokio::test]
async fn runs() {
    let numbers = [1, 2, 3];
    // SAFETY: all pointers are to `numbers`.
    unsafe {
        assert_eq!(read(&numbers[1]), 2);
        assert_eq!(read_in_the_old_way(&numbers[2]), 3);
        assert_eq!(runlore_ui_sum(numbers.as_ptr(), 3), 6);
        assert_eq!(read_later(&numbers[1]).await, 2);
    }
    assert_eq!(plus_one(1), 2);
}
