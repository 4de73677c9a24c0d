//! Encodes errors and panics as items of an event.

use std::any::Any;
use std::error::Error;
use std::fmt;

use super::backtrace;
use crate::pipeline::event::{ItemKind, push_text};
use runlore_core::record::{BoundedText, redact};

/// The maximum length of a recorded message, in bytes.
const MAX_MESSAGE: usize = 4096;

/// The maximum number of sources to follow: a chain may contain a cycle.
const MAX_CHAIN: usize = 32;

/// Appends an error and the chain of its sources.
pub(super) fn push_chain(items: &mut Vec<u8>, type_name: &str, error: &(dyn Error + '_)) {
    if !type_name.is_empty() {
        push_text(items, ItemKind::ErrorType, type_name);
    }
    push_message(items, &shown(error));
    let mut source = error.source();
    for _ in 0..MAX_CHAIN {
        let Some(error) = source else { break };
        push_message(items, &shown(error));
        source = error.source();
    }
}

/// Appends an error of which only the text is available.
pub(super) fn push_text_error(items: &mut Vec<u8>, type_name: &str, message: impl fmt::Display) {
    push_text(items, ItemKind::ErrorType, type_name);
    push_message(items, &shown(&message));
}

/// Formats an error. The length is bounded, because an error may display any amount of text.
fn shown(error: &(impl fmt::Display + ?Sized)) -> String {
    BoundedText::of(error, 2 * MAX_MESSAGE).text
}

/// Appends a panic, given its payload.
pub(super) fn push_panic(items: &mut Vec<u8>, payload: &(dyn Any + Send)) {
    push_panic_text(items, panic_message(payload));
}

/// Appends a panic, given its message.
pub(super) fn push_panic_text(items: &mut Vec<u8>, message: &str) {
    push_message(items, message);
    backtrace::push(items, message);
}

/// Returns the message in a panic's payload.
pub(crate) fn panic_message<'a>(payload: &'a (dyn Any + 'static)) -> &'a str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "a panic without a message",
    }
}

/// Appends one message.
pub(super) fn push_message(items: &mut Vec<u8>, message: &str) {
    // Redact before truncating: a secret may cross the limit. Text far beyond it is not worth the
    // time.
    let near =
        (0..=message.len().min(2 * MAX_MESSAGE)).rev().find(|&at| message.is_char_boundary(at));
    let near = &message[..near.unwrap_or(0)];
    let mut message = redact::hide_secrets(near, near.len() < message.len()).into_owned();
    if message.len() > MAX_MESSAGE {
        let end = (0..=MAX_MESSAGE).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    push_text(items, ItemKind::ErrorMessage, &message);
}
