//! Parses the arguments of `#[telemetry_task]` and checks that they are consistent.

use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, ExprPath, Ident, Lit, LitStr, Path, Result, Token, parenthesized, token};

use crate::errors::Errors;
use crate::nearest::suggestion;

const NAMES: [&str; 18] = [
    "name",
    "output",
    "outputs",
    "spread",
    "skip",
    "skip_all",
    "used",
    "generated",
    "tags",
    "subtype",
    "metadata",
    "telemetry",
    "summarise",
    "fail_if",
    "tensors",
    "sync",
    "future",
    "crate",
];
const TELEMETRY_LEVELS: [&str; 3] = ["none", "light", "default"];
const TELEMETRY_TYPES: [&str; 8] =
    ["cpu", "per_cpu", "process_info", "mem", "disk", "network", "gpu", "energy"];

/// The parsed arguments of `#[telemetry_task]`.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) name: Option<LitStr>,
    pub(crate) output: Option<Output>,
    pub(crate) spread: Option<Span>,
    pub(crate) skip: Vec<Ident>,
    pub(crate) skip_all: bool,
    pub(crate) used: Vec<Field>,
    pub(crate) generated: Vec<Field>,
    pub(crate) tags: Vec<LitStr>,
    pub(crate) subtype: Option<LitStr>,
    pub(crate) metadata: Vec<Field>,
    pub(crate) telemetry: Telemetry,
    pub(crate) summarise_full: bool,
    pub(crate) fail_if: Option<Expr>,
    pub(crate) future: Option<Span>,
    pub(crate) tensors: Option<Path>,
    /// The span of `sync`. The task waits for its device if this is set.
    pub(crate) sync: Option<Span>,
    pub(crate) krate: Option<Path>,
}

/// Names for the returned value.
pub(crate) enum Output {
    Whole(LitStr),
    Parts(Vec<LitStr>),
}

/// `key = value`
pub(crate) struct Field {
    pub(crate) key: Ident,
    pub(crate) value: Expr,
}

/// The telemetry of a task.
#[derive(Default, PartialEq, Debug)]
pub(crate) enum Telemetry {
    #[default]
    Default,
    None,
    Light,
    /// Names from [`TELEMETRY_TYPES`].
    Types(Vec<&'static str>),
}

impl Field {
    pub(crate) fn label(&self) -> String {
        label(&self.key)
    }
}

/// Returns the name under which an identifier is recorded: without the `r#` of a raw identifier.
pub(crate) fn label(ident: &Ident) -> String {
    ident.unraw().to_string()
}

impl Args {
    /// Parses every valid argument and reports every mistake.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Args::default();
        let mut seen = Vec::new();
        let read = |input: ParseStream<'_>| {
            separated(input, errors, |input, errors| args.argument(input, &mut seen, errors));
            Ok(())
        };
        if let Err(error) = read.parse2(tokens)
            && errors.is_empty()
        {
            errors.push(error);
        }
        args.check_names(errors);
        args
    }

    fn argument(
        &mut self,
        input: ParseStream<'_>,
        seen: &mut Vec<String>,
        errors: &mut Errors,
    ) -> Result<()> {
        let word = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), "expected the name of an argument, such as `name = \"…\"`")
        })?;
        let key = label(&word);
        if seen.contains(&key) {
            return Err(Error::new(word.span(), format!("`{key}` is given twice")));
        }
        match key.as_str() {
            "name" => self.name = Some(string(input, &word)?),
            "output" => {
                self.set_output(&word, Output::Whole(string(input, &word)?))?;
            }
            "outputs" => {
                let names = strings(input, &word, errors)?;
                self.set_output(&word, Output::Parts(names))?;
            }
            "spread" => self.spread = Some(bare(input, &word)?),
            "skip" => self.skip = list(input, &word, "(a, b)", errors, |input, _| name(input))?,
            "skip_all" => {
                bare(input, &word)?;
                self.skip_all = true;
            }
            "used" => self.used = fields(input, &word, "(rows = df.len(), …)", errors)?,
            "generated" => self.generated = fields(input, &word, "(loss = ret.loss, …)", errors)?,
            "tags" => self.tags = strings(input, &word, errors)?,
            "subtype" => self.subtype = Some(string(input, &word)?),
            "metadata" => self.metadata = fields(input, &word, "(key = value, …)", errors)?,
            "telemetry" => self.telemetry = telemetry(input, &word, errors)?,
            "summarise" => {
                let how = string(input, &word)?;
                if how.value() != "full" {
                    return Err(Error::new(how.span(), "`summarise` takes only `\"full\"`"));
                }
                self.summarise_full = true;
            }
            "fail_if" => {
                equals(input, &word, "an expression", " = ret.is_none()")?;
                self.fail_if = Some(input.parse()?);
            }
            "future" => self.future = Some(bare(input, &word)?),
            "tensors" => {
                equals(input, &word, "a crate", " = runlore_burn")?;
                self.tensors = Some(input.call(Path::parse_mod_style)?);
            }
            "sync" => {
                at_task(input, &word)?;
                self.sync = Some(word.span());
            }
            "crate" => {
                equals(input, &word, "a path", " = path::to::runlore")?;
                self.krate = Some(input.call(Path::parse_mod_style)?);
            }
            unknown => {
                let hint = suggestion(unknown, &NAMES, "the arguments are");
                return Err(Error::new(
                    word.span(),
                    format!("unknown argument `{unknown}`: {hint}"),
                ));
            }
        }
        seen.push(key);
        Ok(())
    }

    fn set_output(&mut self, word: &Ident, output: Output) -> Result<()> {
        if self.output.is_some() {
            return Err(Error::new(
                word.span(),
                "`output` names the whole value and `outputs` the parts of a tuple: keep one of them",
            ));
        }
        self.output = Some(output);
        Ok(())
    }

    /// Reports names that would overwrite one another in the record.
    fn check_names(&self, errors: &mut Errors) {
        unique(self.used.iter().map(|field| (field.label(), field.key.span())), errors);
        unique(self.metadata.iter().map(|field| (field.label(), field.key.span())), errors);
        unique(self.skip.iter().map(|ident| (label(ident), ident.span())), errors);
        unique(self.tags.iter().map(|tag| (tag.value(), tag.span())), errors);
        let outputs = match &self.output {
            Some(Output::Whole(name)) => std::slice::from_ref(name),
            Some(Output::Parts(names)) => names,
            None => &[],
        };
        let outputs = outputs.iter().map(|name| (name.value(), name.span()));
        let generated = self.generated.iter().map(|field| (field.label(), field.key.span()));
        unique(outputs.chain(generated), errors);
        if let (Some(spread), Some(_)) = (self.spread, &self.output) {
            errors.push(Error::new(
                spread,
                "`spread` takes the names from the returned value: remove it or `output`",
            ));
        }
    }
}

/// Parses `item, item, …` to the end of the input. After a mistake, it continues behind the next
/// comma.
pub(crate) fn separated(
    input: ParseStream<'_>,
    errors: &mut Errors,
    mut item: impl FnMut(ParseStream<'_>, &mut Errors) -> Result<()>,
) {
    while !input.is_empty() {
        let read = item(input, errors).and_then(|()| {
            if input.is_empty() || input.peek(Token![,]) {
                Ok(())
            } else {
                Err(Error::new(input.span(), "expected `,`"))
            }
        });
        if let Err(error) = read {
            errors.push(error);
            while !input.is_empty() && !input.peek(Token![,]) {
                // Parsing one token tree of a non-empty stream cannot fail.
                let _ = input.parse::<proc_macro2::TokenTree>();
            }
        }
        let _ = input.parse::<Option<Token![,]>>();
    }
}

fn list<T>(
    input: ParseStream<'_>,
    word: &Ident,
    usage: &str,
    errors: &mut Errors,
    mut item: impl FnMut(ParseStream<'_>, &mut Errors) -> Result<T>,
) -> Result<Vec<T>> {
    if !input.peek(token::Paren) {
        let message = format!("`{word}` takes a list: write `{word}{usage}`");
        return Err(Error::new(word.span(), message));
    }
    let content;
    let parentheses = parenthesized!(content in input);
    if content.is_empty() {
        let message = format!("`{word}` needs at least one entry: `{word}{usage}`");
        return Err(Error::new(parentheses.span.join(), message));
    }
    let mut items = Vec::new();
    separated(&content, errors, |input, errors| {
        items.push(item(input, errors)?);
        Ok(())
    });
    Ok(items)
}

fn strings(input: ParseStream<'_>, word: &Ident, errors: &mut Errors) -> Result<Vec<LitStr>> {
    list(input, word, "(\"…\", \"…\")", errors, |input, _| {
        literal(input, &format!("`{word}` takes strings: write `{word}(\"…\", \"…\")`"))
    })
}

fn fields(
    input: ParseStream<'_>,
    word: &Ident,
    usage: &str,
    errors: &mut Errors,
) -> Result<Vec<Field>> {
    list(input, word, usage, errors, |input, _| {
        let unnamed = format!("give the value a name: `{word}{usage}`");
        let start = input.span();
        let key = name(input).map_err(|error| Error::new(error.span(), &unnamed))?;
        if input.peek(Token![=]) && !input.peek(Token![==]) {
            input.parse::<Token![=]>()?;
            return Ok(Field { key, value: input.parse()? });
        }
        let is_short = (input.is_empty() || input.peek(Token![,])) && word == "used";
        if !is_short {
            return Err(Error::new(start, unnamed));
        }
        let value = ExprPath { attrs: Vec::new(), qself: None, path: key.clone().into() };
        Ok(Field { key, value: Expr::Path(value) })
    })
}

/// Parses an identifier or a keyword such as `self`.
fn name(input: ParseStream<'_>) -> Result<Ident> {
    input.call(Ident::parse_any)
}

pub(crate) fn equals(input: ParseStream<'_>, word: &Ident, what: &str, usage: &str) -> Result<()> {
    if !input.peek(Token![=]) {
        let message = format!("`{word}` takes {what}: write `{word}{usage}`");
        return Err(Error::new(word.span(), message));
    }
    input.parse::<Token![=]>().map(drop)
}

pub(crate) fn string(input: ParseStream<'_>, word: &Ident) -> Result<LitStr> {
    equals(input, word, "a string", " = \"…\"")?;
    literal(input, &format!("`{word}` takes a string: write `{word} = \"…\"`"))
}

/// Parses `= "task"`, the only value of `sync`.
pub(crate) fn at_task(input: ParseStream<'_>, word: &Ident) -> Result<()> {
    let when = string(input, word)?;
    if when.value() != "task" {
        return Err(Error::new(when.span(), "`sync` takes only `\"task\"`"));
    }
    Ok(())
}

pub(crate) fn literal(input: ParseStream<'_>, expected: &str) -> Result<LitStr> {
    let fork = input.fork();
    match fork.parse::<Lit>() {
        Ok(Lit::Str(_)) => {
            let text: LitStr = input.parse()?;
            if text.value().trim().is_empty() {
                return Err(Error::new(text.span(), "an empty string names nothing"));
            }
            Ok(text)
        }
        Ok(other) => Err(Error::new(other.span(), expected)),
        Err(error) => Err(Error::new(error.span(), expected)),
    }
}

fn bare(input: ParseStream<'_>, word: &Ident) -> Result<Span> {
    if input.is_empty() || input.peek(Token![,]) {
        Ok(word.span())
    } else {
        Err(Error::new(input.span(), format!("`{word}` takes no value: write only `{word}`")))
    }
}

fn telemetry(input: ParseStream<'_>, word: &Ident, errors: &mut Errors) -> Result<Telemetry> {
    let usage = "`telemetry` takes a level or types: write `telemetry = \"none\"`, `\"light\"` or `\"default\"`, or `telemetry(cpu, mem)`";
    if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
    } else if !input.peek(token::Paren) {
        return Err(Error::new(word.span(), usage));
    }
    if input.peek(token::Paren) {
        let types = list(input, word, "(cpu, mem)", errors, |input, _| telemetry_type(input))?;
        return Ok(Telemetry::Types(types));
    }
    let level = literal(input, usage)?;
    match level.value().as_str() {
        "default" => Ok(Telemetry::Default),
        "none" => Ok(Telemetry::None),
        "light" => Ok(Telemetry::Light),
        other => {
            let hint = suggestion(other, &TELEMETRY_LEVELS, "the levels are");
            Err(Error::new(level.span(), format!("unknown telemetry level `{other}`: {hint}")))
        }
    }
}

fn telemetry_type(input: ParseStream<'_>) -> Result<&'static str> {
    let word = name(input)?;
    let found = TELEMETRY_TYPES.into_iter().find(|known| word == known);
    found.ok_or_else(|| {
        let hint = suggestion(&word.to_string(), &TELEMETRY_TYPES, "the types are");
        Error::new(word.span(), format!("unknown telemetry type `{word}`: {hint}"))
    })
}

fn unique(names: impl Iterator<Item = (String, Span)>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for (name, span) in names {
        if seen.contains(&name) {
            errors.push(Error::new(span, format!("`{name}` is given twice")));
        } else {
            seen.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens, quote};

    use super::*;

    fn parsed(tokens: TokenStream) -> Args {
        let mut errors = Errors::default();
        let args = Args::parse(tokens, &mut errors);
        assert_eq!(errors.messages(), [""; 0]);
        args
    }

    fn complaints(tokens: TokenStream) -> Vec<String> {
        let mut errors = Errors::default();
        Args::parse(tokens, &mut errors);
        errors.messages()
    }

    fn texts(fields: &[Field]) -> Vec<(String, String)> {
        let text = |field: &Field| (field.label(), field.value.to_token_stream().to_string());
        fields.iter().map(text).collect()
    }

    #[test]
    fn nothing_is_said() {
        let args = parsed(quote!());
        assert!(args.name.is_none() && args.output.is_none() && args.used.is_empty());
        assert_eq!(args.telemetry, Telemetry::Default);
    }

    #[test]
    fn everything_is_said() {
        let args = parsed(quote! {
            name = "n", outputs("a", "b"), skip(x, r#type), skip_all, used(rows = df.len(), x, self),
            generated(loss = ret.loss,), tags("t"), subtype = "s", metadata(k = 1 + 2, l = f::<A, B>()),
            telemetry = (cpu, per_cpu), summarise = "full", fail_if = ret.is_none(), future,
            tensors = c, crate = a::b,
        });
        assert_eq!(args.name.map(|name| name.value()).as_deref(), Some("n"));
        assert!(matches!(args.output, Some(Output::Parts(names)) if names.len() == 2));
        assert_eq!(args.skip.iter().map(label).collect::<Vec<_>>(), ["x", "type"]);
        assert!(args.skip_all && args.summarise_full && args.future.is_some());
        let used = [("rows", "df . len ()"), ("x", "x"), ("self", "self")];
        assert_eq!(texts(&args.used), used.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(args.metadata.len(), 2);
        assert_eq!(args.telemetry, Telemetry::Types(vec!["cpu", "per_cpu"]));
        assert!(args.fail_if.is_some() && args.krate.is_some() && args.tensors.is_some());
    }

    #[test]
    fn telemetry_is_a_level_or_a_list() {
        assert_eq!(parsed(quote!(telemetry = "none")).telemetry, Telemetry::None);
        assert_eq!(parsed(quote!(telemetry = "light")).telemetry, Telemetry::Light);
        assert_eq!(parsed(quote!(telemetry = "default")).telemetry, Telemetry::Default);
        assert_eq!(parsed(quote!(telemetry(mem))).telemetry, Telemetry::Types(vec!["mem"]));
        assert_eq!(
            complaints(quote!(telemetry = "lite")),
            ["unknown telemetry level `lite`: the levels are `none`, `light` and `default`"]
        );
        assert_eq!(
            complaints(quote!(telemetry(memory, cpus))),
            [
                "unknown telemetry type `memory`: did you mean `mem`?",
                "unknown telemetry type `cpus`: did you mean `cpu`?"
            ]
        );
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        assert_eq!(
            complaints(quote!(tagz("a"), name = 5, spread = true, output("x"), 7, skip, used())),
            [
                "unknown argument `tagz`: did you mean `tags`?",
                "`name` takes a string: write `name = \"…\"`",
                "`spread` takes no value: write only `spread`",
                "`output` takes a string: write `output = \"…\"`",
                "expected the name of an argument, such as `name = \"…\"`",
                "`skip` takes a list: write `skip(a, b)`",
                "`used` needs at least one entry: `used(rows = df.len(), …)`",
            ]
        );
    }

    #[test]
    fn nothing_is_said_twice() {
        assert_eq!(complaints(quote!(name = "a", name = "b")), ["`name` is given twice"]);
        assert_eq!(complaints(quote!(used(a = 1, a = 2))), ["`a` is given twice"]);
        assert_eq!(complaints(quote!(outputs("a", "a"))), ["`a` is given twice"]);
        assert_eq!(complaints(quote!(output = "a", generated(a = 1))), ["`a` is given twice"]);
        assert_eq!(complaints(quote!(output = "a", outputs("b"))).len(), 1);
        assert_eq!(complaints(quote!(output = "a", spread)).len(), 1);
    }

    #[test]
    fn a_value_needs_a_name() {
        let wanted = "give the value a name: `used(rows = df.len(), …)`";
        assert_eq!(complaints(quote!(used(df.len()))), [wanted]);
        assert_eq!(complaints(quote!(used(5))), [wanted]);
        assert_eq!(complaints(quote!(metadata(key))).len(), 1);
    }
}
