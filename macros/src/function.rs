//! The annotated function: its parts, and what its syntax shows without type information.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, PatIdent, Path, PathArguments, Result,
    ReturnType, Signature, Token, Type, TypeParamBound, Visibility,
};

use crate::body::Body;

/// A function with a body.
pub(crate) struct Function {
    /// Everything before the body, as it was written.
    pub(crate) head: TokenStream,
    pub(crate) sig: Signature,
    pub(crate) parameters: Vec<Parameter>,
    /// `None` if the body does not parse.
    pub(crate) body: Option<Body>,
}

/// A name bound by the parameters.
pub(crate) struct Parameter {
    pub(crate) ident: Ident,
    /// The `#[cfg(…)]` under which the name exists.
    pub(crate) cfg: Vec<Attribute>,
    /// Whether it is `&T` or `&mut T`.
    pub(crate) is_reference: bool,
}

/// What a call returns.
pub(crate) enum Returned<'a> {
    Nothing,
    Never,
    /// The type, if the signature shows it.
    Value(Option<&'a Type>),
}

impl Function {
    /// Parses a function. `attribute` is the name of the attribute on it, for error messages.
    pub(crate) fn parse(item: TokenStream, attribute: &str) -> Result<Self> {
        let mut head = flat(item);
        let body = match head.pop() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => group,
            last => {
                head.extend(last);
                return Err(without_body(head.into_iter().collect(), attribute));
            }
        };
        let head: TokenStream = head.into_iter().collect();
        let (attrs, sig) = match header.parse2(head.clone()) {
            Ok(parts) => parts,
            Err(error) => return Err(not_a_function(head, attribute).unwrap_or(error)),
        };
        if let Some(constness) = &sig.constness {
            return Err(Error::new_spanned(
                constness,
                "a `const fn` may run at compile time, where nothing can be recorded: remove `const` or the attribute",
            ));
        }
        if let Some(again) = attrs.iter().find(|attr| is_named(attr.path(), attribute)) {
            return Err(Error::new_spanned(
                again,
                format!("one `#[{attribute}]` records the function: remove the other"),
            ));
        }
        let parameters = parameters(&sig);
        Ok(Self { head, sig, parameters, body: Body::parse(&body) })
    }

    pub(crate) fn is_without_return(&self) -> bool {
        matches!(self.sig.output, ReturnType::Default)
    }

    /// Whether the function returns a future that it creates neither as an `async fn` nor in its
    /// last expression.
    pub(crate) fn returns_unseen_future(&self) -> bool {
        let ReturnType::Type(_, ty) = &self.sig.output else {
            return false;
        };
        let seen = self.body.as_ref().is_none_or(Body::ends_in_future);
        self.sig.asyncness.is_none() && !seen && future_output(ty).is_some()
    }

    /// Whether a call only creates the future that does the work. `asked` is true if the attribute
    /// has the argument `future`.
    pub(crate) fn is_deferred(&self, asked: bool) -> bool {
        self.sig.asyncness.is_none()
            && (asked || self.body.as_ref().is_some_and(Body::ends_in_future))
    }

    /// Returns the type of the function's result. For a future, this is its output.
    pub(crate) fn returned(&self) -> Returned<'_> {
        let ReturnType::Type(_, ty) = &self.sig.output else {
            return Returned::Nothing;
        };
        let ty = if self.sig.asyncness.is_some() { Some(&**ty) } else { self.resolved(ty) };
        match ty.map(bare) {
            Some(Type::Never(_)) => Returned::Never,
            Some(ty) if is_unit(ok_type(ty)) => Returned::Nothing,
            ty => Returned::Value(ty),
        }
    }

    fn resolved<'a>(&self, ty: &'a Type) -> Option<&'a Type> {
        match future_output(ty) {
            Some(output) => Some(output),
            None if self.is_deferred(false) => None,
            None => Some(ty),
        }
    }

    /// Returns the output type of the returned future, if the signature shows it.
    pub(crate) fn future_type(&self) -> Option<&Type> {
        match &self.sig.output {
            ReturnType::Type(_, ty) => future_output(ty),
            ReturnType::Default => None,
        }
    }

    /// Returns the length of a returned tuple, if the signature shows it.
    pub(crate) fn returned_parts(&self) -> Option<usize> {
        let Returned::Value(Some(ty)) = self.returned() else {
            return None;
        };
        match ok_type(ty) {
            Type::Tuple(tuple) => Some(tuple.elems.len()),
            _ => None,
        }
    }

    /// Whether the return type is `impl Future`, so that the future needs no box.
    pub(crate) fn returns_impl(&self) -> bool {
        match &self.sig.output {
            ReturnType::Type(_, ty) => matches!(bare(ty), Type::ImplTrait(_)),
            ReturnType::Default => false,
        }
    }
}

fn header(input: ParseStream<'_>) -> Result<(Vec<Attribute>, Signature)> {
    let attrs = Attribute::parse_outer(input)?;
    input.parse::<Visibility>()?;
    input.parse::<Option<Token![default]>>()?;
    Ok((attrs, input.parse()?))
}

/// Returns the item's tokens, without the invisible group around a `macro_rules!` fragment.
fn flat(item: TokenStream) -> Vec<TokenTree> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    while let Some(TokenTree::Group(group)) = tokens.last()
        && group.delimiter() == Delimiter::None
    {
        let inner = group.stream();
        tokens.pop();
        tokens.extend(inner);
    }
    tokens
}

fn parameters(sig: &Signature) -> Vec<Parameter> {
    struct Bindings(Vec<Ident>);
    impl<'ast> Visit<'ast> for Bindings {
        fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
            self.0.push(pat.ident.clone());
            visit::visit_pat_ident(self, pat);
        }
    }
    let mut parameters = Vec::new();
    for input in &sig.inputs {
        let FnArg::Typed(input) = input else { continue };
        let mut bindings = Bindings(Vec::new());
        bindings.visit_pat(&input.pat);
        let cfg: Vec<_> =
            input.attrs.iter().filter(|attr| is_named(attr.path(), "cfg")).cloned().collect();
        for ident in bindings.0 {
            let is_reference = matches!(bare(&input.ty), Type::Reference(_));
            parameters.push(Parameter { ident, cfg: cfg.clone(), is_reference });
        }
    }
    parameters
}

/// Returns the error for a function without a body.
fn without_body(item: TokenStream, attribute: &str) -> Error {
    let signature = |input: ParseStream<'_>| {
        let parts = header(input)?;
        input.parse::<Option<Token![;]>>()?;
        Ok(parts)
    };
    if signature.parse2(item.clone()).is_ok() {
        return Error::new_spanned(
            item,
            format!(
                "a function without a body does nothing to record: put #[{attribute}] on the functions that implement it"
            ),
        );
    }
    not_a_function(item.clone(), attribute)
        .unwrap_or_else(|| Error::new_spanned(item, format!("#[{attribute}] stands on functions")))
}

/// Returns the error for an item that is not a function, with advice where to put the attribute.
/// `None` if the item is a function, or if its keyword does not parse.
fn not_a_function(head: TokenStream, attribute: &str) -> Option<Error> {
    let keyword = |input: ParseStream<'_>| {
        Attribute::parse_outer(input)?;
        input.parse::<Visibility>()?;
        let mut word = input.call(Ident::parse_any)?;
        // `unsafe impl`, `unsafe trait`, `auto trait` and `unsafe extern`: the next keyword
        // decides.
        while matches!(word.to_string().as_str(), "unsafe" | "auto") {
            word = input.call(Ident::parse_any)?;
        }
        let is_function = word == "fn" || input.to_string().contains("fn ");
        input.parse::<TokenStream>()?;
        Ok((word, is_function))
    };
    let (word, is_function) = keyword.parse2(head.clone()).ok()?;
    let advice = match word.to_string().as_str() {
        "impl" => format!("put #[{attribute}] on the methods of this impl block"),
        "trait" => format!("put #[{attribute}] on the methods of this trait that have a body"),
        "mod" => format!("put #[{attribute}] on the functions of this module"),
        "struct" | "enum" | "union" | "type" => {
            format!("a type does nothing to record: put #[{attribute}] on functions")
        }
        "extern" if !is_function => {
            format!(
                "functions behind `extern` are not compiled here: put #[{attribute}] on a function that calls them"
            )
        }
        _ if is_function => return None,
        _ => format!("#[{attribute}] stands on functions"),
    };
    Some(Error::new_spanned(head, advice))
}

/// Returns the type without parentheses and the invisible groups of `macro_rules!`.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Paren(ty) => bare(&ty.elem),
        Type::Group(ty) => bare(&ty.elem),
        ty => ty,
    }
}

fn is_unit(ty: &Type) -> bool {
    matches!(bare(ty), Type::Tuple(tuple) if tuple.elems.is_empty())
}

fn is_named(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident.unraw() == name)
}

/// Returns `T` of a `Result<T, E>` with any path, or else the type itself.
fn ok_type(ty: &Type) -> &Type {
    match bare(ty) {
        Type::Path(path) if is_named(&path.path, "Result") => {
            type_arguments(&path.path).next().map_or(ty, bare)
        }
        ty => ty,
    }
}

fn type_arguments(path: &Path) -> impl DoubleEndedIterator<Item = &Type> {
    let arguments = path.segments.last().map(|segment| &segment.arguments);
    let arguments = match arguments {
        Some(PathArguments::AngleBracketed(arguments)) => Some(&arguments.args),
        _ => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Returns the output type of a future. `None` unless the type is written as `impl Future`,
/// `Pin<Box<dyn Future>>`, `BoxFuture` or `LocalBoxFuture`.
fn future_output(ty: &Type) -> Option<&Type> {
    match bare(ty) {
        Type::ImplTrait(ty) => ty.bounds.iter().find_map(bound_output),
        Type::TraitObject(ty) => ty.bounds.iter().find_map(bound_output),
        Type::Path(path) => {
            let path = &path.path;
            if is_named(path, "BoxFuture") || is_named(path, "LocalBoxFuture") {
                type_arguments(path).next_back()
            } else if is_named(path, "Pin") {
                type_arguments(path).next().map(unboxed).and_then(future_output)
            } else {
                None
            }
        }
        _ => None,
    }
}

fn unboxed(ty: &Type) -> &Type {
    match bare(ty) {
        Type::Path(path) if is_named(&path.path, "Box") => {
            type_arguments(&path.path).next().unwrap_or(ty)
        }
        ty => ty,
    }
}

fn bound_output(bound: &TypeParamBound) -> Option<&Type> {
    let TypeParamBound::Trait(bound) = bound else {
        return None;
    };
    let segment = bound.path.segments.last().filter(|segment| segment.ident == "Future")?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(&assoc.ty),
        _ => None,
    })
}
