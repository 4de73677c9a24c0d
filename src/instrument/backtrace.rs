//! Backtraces of panics, if the settings enable them. The panic hook captures a backtrace, and the
//! innermost task that the panic ends records it.
//!
//! Errors have no backtrace here: stable Rust does not let other code read the one that an error
//! holds.

use std::backtrace::Backtrace;
use std::cell::RefCell;

use crate::pipeline::event::{ItemKind, Key, Marks, push_item, push_text};
use runlore_core::record::Limits;

const MAX_FRAMES: usize = 64;

/// The name of a frame is cut at this length: nested generic types can make it very long.
const MAX_FRAME: usize = 256;

thread_local! {
    /// The message and the frames of the last panic on this thread.
    static LAST: RefCell<Option<(String, Vec<String>)>> = const { RefCell::new(None) };
}

/// Stores the backtrace of the panic that is running the hook.
pub(super) fn capture(message: &str) {
    let text = Backtrace::force_capture().to_string();
    let frames = frames(&text);
    _ = LAST.try_with(|last| *last.borrow_mut() = Some((message.to_owned(), frames)));
}

/// Appends the backtrace of the panic with this message, unless an inner task has recorded it
/// already. A panic of another thread that is resumed here has no backtrace, because the hook did
/// not run here.
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

/// Returns the frames of the program itself, each as `function at file:line`. The input has two
/// lines per frame: the number with the function, and the location if it is known.
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
    // The runtime marks the boundaries of its own frames with these two functions.
    let start = frames.iter().rposition(|(function, _)| function.contains("__rust_end_short_"));
    let own = &frames[start.map_or(0, |at| at + 1)..];
    let end = own.iter().position(|(function, _)| function.contains("__rust_begin_short_"));
    let own = &own[..end.unwrap_or(own.len())];
    own.iter().filter(|frame| !is_machinery(frame)).map(told).collect()
}

/// Returns whether a frame belongs to Rust's own libraries or to the code that runs annotated
/// functions. An inlined function is recognised by its location only, and a function of a program
/// without locations by its name only.
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
    // Drops the column.
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
