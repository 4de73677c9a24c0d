//! Errors and panics as items of an event.

use std::any::Any;
use std::error::Error;
use std::fmt;

use super::backtrace;
use crate::pipeline::event::{ItemKind, push_text};
use runlore_core::record::{BoundedText, redact};

/// The longest message that is kept.
const MAX_MESSAGE: usize = 4096;

/// The most sources that are followed: a chain may be a circle.
const MAX_CHAIN: usize = 32;

/// An error with what caused it, and what caused that.
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

/// An error that is known by its text only.
pub(super) fn push_text_error(items: &mut Vec<u8>, type_name: &str, message: impl fmt::Display) {
    push_text(items, ItemKind::ErrorType, type_name);
    push_message(items, &shown(&message));
}

/// What an error displays, which may be of any length.
fn shown(error: &(impl fmt::Display + ?Sized)) -> String {
    BoundedText::of(error, 2 * MAX_MESSAGE).text
}

/// A panic, by its payload.
pub(super) fn push_panic(items: &mut Vec<u8>, payload: &(dyn Any + Send)) {
    push_panic_text(items, panic_message(payload));
}

/// A panic, by what it said.
pub(super) fn push_panic_text(items: &mut Vec<u8>, message: &str) {
    push_message(items, message);
    backtrace::push(items, message);
}

/// The message of a panic, by its payload.
pub(super) fn panic_message<'a>(payload: &'a (dyn Any + 'static)) -> &'a str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "a panic without a message",
    }
}

/// One message.
pub(super) fn push_message(items: &mut Vec<u8>, message: &str) {
    // Scrubbed before it is cut: a secret may lie across the limit. What is far past it is not worth the time.
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
