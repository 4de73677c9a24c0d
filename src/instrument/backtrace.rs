//! Where a panic came from, if the settings ask for it: captured by the hook, told by the innermost task that it ends.
//!
//! Errors have none here: what they know of where they were made, stable Rust does not let others ask.

use std::backtrace::Backtrace;
use std::cell::RefCell;

use crate::pipeline::event::{ItemKind, Key, Marks, push_item, push_text};
use runlore_core::record::Limits;

const MAX_FRAMES: usize = 64;

/// A frame of generic types of generic types may have a very long name.
const MAX_FRAME: usize = 256;

thread_local! {
    /// What the last panic on this thread said, and where it was.
    static LAST: RefCell<Option<(String, Vec<String>)>> = const { RefCell::new(None) };
}

/// Notes where the panic that runs the hook came from.
pub(super) fn capture(message: &str) {
    let text = Backtrace::force_capture().to_string();
    let frames = frames(&text);
    _ = LAST.try_with(|last| *last.borrow_mut() = Some((message.to_owned(), frames)));
}

/// Adds where the panic that said this came from, unless a task inside has told it already. A panic of another thread that
/// is resumed here has not been heard here.
pub(super) fn push(items: &mut Vec<u8>, message: &str) {
    let is_it = |last: &mut (String, Vec<String>)| last.0 == message;
    let last = LAST.try_with(|last| last.borrow_mut().take_if(is_it));
    let Ok(Some((_, frames))) = last else { return };
    if frames.is_empty() {
        let why = "the program has no symbols";
        return push_item(items, ItemKind::Unavailable, Key::Name("error.backtrace"), |items| {
            items.extend_from_slice(why.as_bytes());
            Marks::default()
        });
    }
    let mut room = Limits::current().bytes as usize;
    for frame in frames.iter().take(MAX_FRAMES) {
        let Some(left) = room.checked_sub(frame.len()) else { break };
        room = left;
        push_text(items, ItemKind::Backtrace, frame);
    }
}

/// The frames of the program itself, `function at file:line` each. The text has two lines a frame: its number and function,
/// and the place where that is known.
fn frames(text: &str) -> Vec<String> {
    let mut frames: Vec<(&str, Option<&str>)> = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if let Some(place) = line.strip_prefix("at ") {
            if let Some((_, known)) = frames.last_mut() {
                *known = Some(place);
            }
        } else if let Some((number, function)) = line.split_once(": ")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            frames.push((function, None));
        }
    }
    // The runtime marks where it ends and where it begins.
    let start = frames.iter().rposition(|(function, _)| function.contains("__rust_end_short_"));
    let own = &frames[start.map_or(0, |at| at + 1)..];
    let end = own.iter().position(|(function, _)| function.contains("__rust_begin_short_"));
    let own = &own[..end.unwrap_or(own.len())];
    own.iter().filter(|frame| !is_machinery(frame)).map(told).collect()
}

/// Whether a function is of Rust's own libraries or of what runs an annotated function. One that was inlined is known by its
/// place only, and one of a program without places by its name only.
fn is_machinery((function, place): &(&str, Option<&str>)) -> bool {
    let name = function.trim_start_matches(['<', '&']);
    let names = [
        "runlore::",
        "runlore_core::",
        "runlore_telemetry::",
        "core::",
        "std::",
        "alloc::",
        "__rust",
        "unknown>",
    ];
    let own_folder = file!().trim_end_matches("backtrace.rs");
    let places = ["/rustc/", "/rustlib/src/rust/library/", own_folder];
    names.iter().any(|beginning| name.starts_with(beginning))
        || place.is_some_and(|place| places.iter().any(|part| place.contains(part)))
}

fn told((function, place): &(&str, Option<&str>)) -> String {
    let function = match function.char_indices().nth(MAX_FRAME) {
        Some((end, _)) => format!("{}…", &function[..end]),
        None => (*function).to_owned(),
    };
    let Some(place) = place else { return function };
    // Without its column.
    let place = place.rsplit_once(':').map_or(*place, |(line, _)| line);
    format!("{function} at {}", place.trim_start_matches("./"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_runtime_and_of_ours_are_left_out() {
        let text = "   0: std::backtrace::Backtrace::force_capture
   1: runlore::instrument::panics::listen
             at /runlore/src/instrument/panics.rs:70:5
   2: std::panicking::panic_handler::{closure#0}
   3: std::sys::backtrace::__rust_end_short_backtrace::<…>
   4: __rustc::rust_begin_unwind
   5: core::panicking::panic_fmt
             at /rustc/0/library/core/src/panicking.rs:80:14
   6: demo::inner
             at ./src/main.rs:12:9
   7: <core::panic::unwind_safe::AssertUnwindSafe<F> as core::ops::function::FnOnce<()>>::call_once
   8: runlore::instrument::slot::TaskSlot::run
   9: do_call<demo::inner>
             at /rustc/0/library/std/src/panicking.rs:581:1
  10: demo::without_a_place
  11: std::sys::backtrace::__rust_begin_short_backtrace
  12: main
";
        assert_eq!(frames(text), ["demo::inner at src/main.rs:12", "demo::without_a_place"]);
        assert!(frames("disabled backtrace").is_empty());
        assert!(frames("   0: <unknown>\n   1: <unknown>\n").is_empty());
    }
}
