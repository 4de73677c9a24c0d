//! A small writer for SVG and HTML that escapes all text.

use std::fmt::{Display, Write};

use runlore_core::text::printable;

/// The markup written so far.
#[derive(Debug, Default)]
pub(super) struct Markup {
    text: String,
}

/// An attribute: its name and value.
pub(super) type Attribute<'a> = (&'a str, &'a dyn Display);

impl Markup {
    pub(super) fn open(&mut self, tag: &str, attributes: &[Attribute<'_>]) {
        self.begin(tag, attributes);
        self.text.push('>');
    }

    pub(super) fn close(&mut self, tag: &str) {
        // Writing to a string cannot fail, here and below.
        _ = write!(self.text, "</{tag}>");
    }

    /// Writes an element without content, as in SVG.
    pub(super) fn empty(&mut self, tag: &str, attributes: &[Attribute<'_>]) {
        self.begin(tag, attributes);
        self.text.push_str("/>");
    }

    /// Writes an element that contains a text.
    pub(super) fn element(&mut self, tag: &str, attributes: &[Attribute<'_>], text: impl Display) {
        self.open(tag, attributes);
        self.escaped(text);
        self.close(tag);
    }

    /// Writes a paragraph of less importance.
    pub(super) fn quiet(&mut self, text: impl Display) {
        self.element("p", &[("class", &"quiet")], text);
    }

    /// Writes a text, escaped.
    pub(super) fn escaped(&mut self, text: impl Display) {
        self.text.push_str(&escape(&text.to_string()));
    }

    /// Writes markup unchanged.
    pub(super) fn raw(&mut self, markup: &str) {
        self.text.push_str(markup);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn begin(&mut self, tag: &str, attributes: &[Attribute<'_>]) {
        _ = write!(self.text, "<{tag}");
        for (name, value) in attributes {
            _ = write!(self.text, " {name}=\"{}\"", escape(&value.to_string()));
        }
    }
}

/// Escapes a text for use in an element or an attribute. Characters that XML does not allow are
/// replaced by visible ones.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in printable(text).keep_lines().to_string().chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Serialises a value as JSON that cannot close the `script` element around it.
pub(super) fn script_json(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let mut markup = Markup::default();
        markup.element("text", &[("x", &1.5), ("title", &"a\"b'c")], "</text><script>&\u{1b}");
        assert_eq!(
            markup.finish(),
            "<text x=\"1.5\" title=\"a&quot;b&#39;c\">&lt;/text&gt;&lt;script&gt;&amp;\\u{1b}</text>"
        );
        assert_eq!(script_json(&"</script>"), r#""\u003c/script>""#);
    }
}
