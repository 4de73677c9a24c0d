//! A function's body, and whether its last expression is the future that does the work.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::visit::{self, Visit};
use syn::{
    AttrStyle, Attribute, Block, Expr, ExprAsync, ExprCall, ExprClosure, ExprReturn, Item, Stmt,
};

/// A body that was parsed.
pub(crate) struct Body {
    /// Inner attributes of the body (`#![…]`), converted to outer ones (`#[…]`). Both apply to the
    /// function.
    pub(crate) attrs: Vec<Attribute>,
    /// The body with its braces, as written.
    pub(crate) block: Group,
    stmts: Vec<Stmt>,
    ending: Ending,
}

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    /// The body ends in any other expression.
    Value,
    /// The body ends in `async {…}` or `Box::pin(async {…})`.
    Future,
    /// The body ends in a boxed future, but an earlier `return` may return a different one.
    FutureAmongOthers,
}

impl Body {
    /// Parses a body. `None` if it does not parse.
    pub(crate) fn parse(group: &Group) -> Option<Self> {
        let split = |input: ParseStream<'_>| {
            let attrs = Attribute::parse_inner(input)?;
            Ok((attrs, input.parse::<TokenStream>()?))
        };
        let (mut attrs, inner) = split.parse2(group.stream()).ok()?;
        let mut stmts = Block::parse_within.parse2(inner.clone()).ok()?;
        let block = if attrs.is_empty() { group.clone() } else { braced(inner, group.span()) };
        for attr in &mut attrs {
            attr.style = AttrStyle::Outer;
        }
        let ending = if last_future(&mut stmts).is_none() {
            Ending::Value
        } else if returns_early(&stmts) {
            Ending::FutureAmongOthers
        } else {
            Ending::Future
        };
        Some(Self { attrs, block, stmts, ending })
    }

    pub(crate) fn ends_in_future(&self) -> bool {
        self.ending != Ending::Value
    }

    /// Whether the body contains the name.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        mentions(self.block.stream(), name)
    }

    /// Returns the block with `first` inserted before all statements.
    pub(crate) fn led_by(&self, first: &TokenStream) -> Group {
        led_by(first, &self.stmts, self.block.span())
    }

    /// Returns a copy of the statements, for modification.
    pub(crate) fn stmts(&self) -> Vec<Stmt> {
        self.stmts.clone()
    }

    /// Returns the statements with the future at their end replaced by `wrap(future)`. `None` if
    /// the body does not end in a future, or if it may return another one earlier.
    pub(crate) fn with_last_future(
        &self,
        wrap: impl FnOnce(&ExprAsync) -> TokenStream,
    ) -> Option<Vec<Stmt>> {
        if self.ending != Ending::Future {
            return None;
        }
        let mut stmts = self.stmts.clone();
        let future = last_future(&mut stmts)?;
        if let Expr::Async(inner) = &*future {
            let wrapped = wrap(inner);
            *future = Expr::Verbatim(wrapped);
        }
        Some(stmts)
    }
}

/// Whether the tokens contain the name.
pub(crate) fn mentions(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident.unraw() == name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        // An inline format argument, as in `format!("{name}")`.
        TokenTree::Literal(literal) => literal.to_string().contains(&format!("{{{name}")),
        _ => false,
    })
}

/// Builds a block of `first` and the statements.
pub(crate) fn led_by(first: &TokenStream, stmts: &[Stmt], span: Span) -> Group {
    let inner = inlined(stmts, span);
    braced(quote!(#first #inner), span)
}

/// Returns the statements in a form that may follow other statements. If they begin with an item,
/// they get a block of their own, so that a lint does not report items after statements. Otherwise
/// they get no block, because a lint would report needless braces.
pub(crate) fn inlined(stmts: &[Stmt], span: Span) -> TokenStream {
    let inner = quote!(#(#stmts)*);
    match stmts.first() {
        Some(Stmt::Item(_)) => braced(inner, span).into_token_stream(),
        _ => inner,
    }
}

fn braced(inner: TokenStream, span: Span) -> Group {
    let mut group = Group::new(Delimiter::Brace, inner);
    group.set_span(span);
    group
}

/// Returns the `async` block that the body ends in.
fn last_future(stmts: &mut [Stmt]) -> Option<&mut Expr> {
    match stmts.last_mut()? {
        Stmt::Expr(expr @ Expr::Return(_), _) | Stmt::Expr(expr, None) => future_in(expr),
        _ => None,
    }
}

fn future_in(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::Async(_) => Some(expr),
        Expr::Group(group) => future_in(&mut group.expr),
        Expr::Paren(paren) => future_in(&mut paren.expr),
        Expr::Return(ret) => future_in(ret.expr.as_mut()?),
        Expr::Call(call) if is_box_pin(call) => future_in(call.args.first_mut()?),
        _ => None,
    }
}

fn is_box_pin(call: &ExprCall) -> bool {
    let Expr::Path(path) = &*call.func else {
        return false;
    };
    let mut names = path.path.segments.iter().rev().map(|segment| &segment.ident);
    call.args.len() == 1
        && names.next().is_some_and(|name| name == "pin")
        && names.next().is_some_and(|name| name == "Box")
}

/// Whether the function itself has a `return` before its last statement.
fn returns_early(stmts: &[Stmt]) -> bool {
    struct Returns(bool);
    impl<'ast> Visit<'ast> for Returns {
        fn visit_expr_return(&mut self, _: &'ast ExprReturn) {
            self.0 = true;
        }
        fn visit_expr_closure(&mut self, _: &'ast ExprClosure) {}
        fn visit_expr_async(&mut self, _: &'ast ExprAsync) {}
        fn visit_item(&mut self, _: &'ast Item) {}
    }
    let mut returns = Returns(false);
    if let [before @ .., _] = stmts {
        for stmt in before {
            visit::visit_stmt(&mut returns, stmt);
        }
    }
    returns.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(source: &str) -> Option<Ending> {
        let group: Group = syn::parse_str(source).expect("a group");
        Body::parse(&group).map(|body| body.ending)
    }

    #[test]
    fn a_future_at_the_end_is_seen() {
        for source in [
            "{ async move { 1 } }",
            "{ async { 1 } }",
            "{ let x = 1; Box::pin(async move { x }) }",
            "{ ::std::boxed::Box::pin((async move { 1 })) }",
            "{ return Box::pin(async move { 1 }); }",
            "{ let f = || { return 1; }; Box::pin(async move { f() }) }",
        ] {
            assert!(ends(source) == Some(Ending::Future), "{source}");
        }
    }

    #[test]
    fn anything_else_is_a_value() {
        for source in
            ["{ 1 }", "{}", "{ async move { 1 }; }", "{ pin(async {}) }", "{ f(async {}) }"]
        {
            assert!(ends(source) == Some(Ending::Value), "{source}");
        }
    }

    #[test]
    fn a_future_returned_early_is_not_overlooked() {
        let source = "{ if a { return Box::pin(ready(1)); } Box::pin(async move { 2 }) }";
        assert!(ends(source) == Some(Ending::FutureAmongOthers));
    }

    #[test]
    fn a_body_that_does_not_parse_is_no_body() {
        assert!(ends("{ let x = ; }").is_none());
        assert!(ends("{ x. }").is_none());
    }

    #[test]
    fn inner_attributes_move_out() {
        let group: Group = syn::parse_str("{ #![allow(unused)] 1 }").expect("a group");
        let body = Body::parse(&group).expect("parses");
        assert_eq!(body.attrs.len(), 1);
        assert_eq!(body.block.to_string(), "{ 1 }");
    }
}
