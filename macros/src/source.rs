//! The source text of tokens, as the user wrote it.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

/// Returns the text of `tokens`, with spaces only where the source has them.
pub(crate) fn text(tokens: TokenStream) -> String {
    // Spans have positions only inside the compiler.
    if !proc_macro::is_available() {
        return tokens.to_string();
    }
    let mut text = Text::default();
    text.stream(tokens);
    text.written
}

/// Line and column.
type LineColumn = (usize, usize);

#[derive(Default)]
struct Text {
    written: String,
    end: Option<LineColumn>,
}

impl Text {
    fn stream(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::None => ("", ""),
                    };
                    let (start, end) = places(group.span());
                    self.word(open, start, (start.0, start.1 + 1));
                    self.stream(group.stream());
                    self.word(close, (end.0, end.1.saturating_sub(1)), end);
                }
                leaf => {
                    let (start, end) = places(leaf.span());
                    self.word(&leaf.to_string(), start, end);
                }
            }
        }
    }

    fn word(&mut self, word: &str, start: LineColumn, end: LineColumn) {
        if word.is_empty() {
            return;
        }
        if self.end.is_some_and(|end| end != start) {
            self.written.push(' ');
        }
        self.written.push_str(word);
        self.end = Some(end);
    }
}

fn places(span: Span) -> (LineColumn, LineColumn) {
    let span = span.unwrap();
    let place = |span: proc_macro::Span| (span.line(), span.column());
    (place(span.start()), place(span.end()))
}
