//! Parses dictionaries in Python's notation, which Stormlog's CSV files use for metadata.

use serde_json::{Map, Number, Value};

use super::python;

/// The maximum nesting depth.
const DEPTH: usize = 64;

/// Parses a dictionary as `repr` writes it. `None` if the text is anything else.
pub(super) fn parse(text: &str) -> Option<Map<String, Value>> {
    let mut parser = Parser { rest: text };
    let value = parser.value(DEPTH)?;
    parser.blanks();
    match value {
        Value::Object(map) if parser.rest.is_empty() => Some(map),
        _ => None,
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, token: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        const WORDS: [(&str, Value); 5] = [
            ("None", Value::Null),
            ("True", Value::Bool(true)),
            ("False", Value::Bool(false)),
            // JSON cannot represent these.
            ("nan", Value::Null),
            ("inf", Value::Null),
        ];
        let depth = depth.checked_sub(1)?;
        if self.takes("{") {
            return self.dictionary(depth).map(Value::Object);
        }
        for (open, close) in [("[", "]"), ("(", ")")] {
            if self.takes(open) {
                return self.list(close, depth).map(Value::Array);
            }
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.string().map(Value::String);
        }
        if self.takes("-inf") {
            return Some(Value::Null);
        }
        for (word, value) in WORDS {
            if self.takes(word) {
                return Some(value);
            }
        }
        self.number()
    }

    fn dictionary(&mut self, depth: usize) -> Option<Map<String, Value>> {
        let mut map = Map::new();
        while !self.takes("}") {
            let key = match self.value(depth)? {
                Value::String(key) => key,
                key @ (Value::Number(_) | Value::Bool(_) | Value::Null) => python::str(&key),
                _ => return None,
            };
            if !self.takes(":") {
                return None;
            }
            map.insert(key, self.value(depth)?);
            if !self.takes(",") && !self.rest.starts_with('}') {
                return None;
            }
        }
        Some(map)
    }

    fn list(&mut self, close: &str, depth: usize) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        while !self.takes(close) {
            items.push(self.value(depth)?);
            if !self.takes(",") && !self.rest.starts_with(close) {
                return None;
            }
        }
        Some(items)
    }

    fn number(&mut self) -> Option<Value> {
        let is_part = |character: char| {
            character.is_ascii_digit() || matches!(character, '+' | '-' | '.' | 'e' | 'E')
        };
        let length = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        if let Ok(number) = text.parse::<i64>() {
            return Some(number.into());
        }
        if let Ok(number) = text.parse::<u64>() {
            return Some(number.into());
        }
        // Whole numbers of more than 64 bits stay text.
        if python::int(text).is_some() {
            return Some(text.into());
        }
        let number: f64 = text.parse().ok()?;
        Some(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn string(&mut self) -> Option<String> {
        let mut characters = self.rest.char_indices();
        let (_, quote) = characters.next()?;
        let mut text = String::new();
        loop {
            let (at, character) = characters.next()?;
            if character == quote {
                self.rest = &self.rest[at + quote.len_utf8()..];
                return Some(text);
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            let (_, escape) = characters.next()?;
            let mut code = |digits: usize| {
                let mut code = 0;
                for _ in 0..digits {
                    code = code * 16 + characters.next()?.1.to_digit(16)?;
                }
                // Unpaired surrogates are not valid characters.
                Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
            };
            text.push(match escape {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '\\' | '\'' | '"' => escape,
                'x' => code(2)?,
                'u' => code(4)?,
                'U' => code(8)?,
                _ => return None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_repr_writes_is_read() {
        let text = r#"{'a': None, 'b': [True, False, -1, 2.5, 1e-07], "it's": (1,), 'n': {'x': 'a\'b"c\\\n\xe9\u2028\U0001f600é'}, 'nan': nan, 'i': -inf, 'big': 1208925819614629174706176, 3: ''}"#;
        let expected = json!({
            "a": null, "b": [true, false, -1, 2.5, 1e-7], "it's": [1], "n": {"x": "a'b\"c\\\n\u{e9}\u{2028}\u{1f600}\u{e9}"},
            "nan": null, "i": null, "big": "1208925819614629174706176", "3": "",
        });
        assert_eq!(parse(text).map(Value::Object), Some(expected));
        assert_eq!(parse("{}"), Some(Map::new()));
    }

    #[test]
    fn what_it_does_not_write_is_not() {
        let deep = format!("{{'a': {}", "[".repeat(100_000));
        for text in [
            "",
            "{",
            "[1]",
            "{'a'}",
            "{'a': }",
            "{'a': 1 'b': 2}",
            "{'a': 'x}",
            "{'a': 1} x",
            "{'a': '\\q'}",
            &deep,
        ] {
            assert_eq!(parse(text), None, "{text:.40}");
        }
    }
}
