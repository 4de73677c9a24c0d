//! Rewrites the layer calls in the body of a forward pass so that each one records itself.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprAsync, ExprMethodCall, Item, Member, Stmt, UnOp};

use crate::forward::{self, Args};
use crate::source;

/// Methods of a layer (`OF_LAYER`), and methods that take a layer as their argument (`WITH_LAYER`).
const OF_LAYER: [&str; 2] = ["forward", "forward_t"];
const WITH_LAYER: [&str; 2] = ["apply", "apply_t"];

/// Rewrites all layer calls in the statements.
pub(crate) fn record(args: &Args, stmts: &mut [Stmt]) {
    let mut layers = Layers { args };
    for stmt in stmts {
        layers.visit_stmt_mut(stmt);
    }
}

struct Layers<'a> {
    args: &'a Args,
}

impl VisitMut for Layers<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        if let Expr::MethodCall(call) = &*expr
            && let Some(recorded) = self.recorded(call)
        {
            *expr = Expr::Verbatim(recorded);
        }
    }

    // An `async` block runs at another time, and an item is not part of the pass.
    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}
    fn visit_item_mut(&mut self, _: &mut Item) {}
}

impl Layers<'_> {
    fn recorded(&self, call: &ExprMethodCall) -> Option<TokenStream> {
        let method = call.method.to_string();
        if OF_LAYER.contains(&method.as_str()) && !call.args.is_empty() {
            return self.call_of_layer(call);
        }
        if WITH_LAYER.contains(&method.as_str()) {
            return self.call_with_layer(call);
        }
        None
    }

    /// Rewrites `self.fc1.forward(x)`. The layer and the arguments are evaluated before the pass
    /// begins, in source order, because layers that the arguments call come before this one. A
    /// `match` evaluates them, so that temporaries they borrow live long enough. It is in
    /// parentheses, because it could otherwise be parsed as a statement of its own.
    fn call_of_layer(&self, call: &ExprMethodCall) -> Option<TokenStream> {
        let layer = Layer::of(&call.receiver)?;
        let ExprMethodCall { attrs, method, turbofish, args, .. } = call;
        let mut first = FirstOf::default();
        let receiver = first.place(&call.receiver);
        // Trailing arguments without side effects stay in the call: a `&mut` moved into a variable
        // could not be used after the call, and a closure in a variable would lose the types that
        // it infers from the call.
        let last = args.iter().rposition(|arg| !does_nothing(arg)).map_or(0, |at| at + 1);
        let args: Vec<TokenStream> = args
            .iter()
            .enumerate()
            .map(|(at, arg)| match at < last {
                true => first.value(arg),
                false => arg.to_token_stream(),
            })
            .collect();
        let input = match call.args.first()? {
            Expr::Closure(_) => None,
            _ => args.first().map(|first| quote_spanned!(Span::mixed_site()=> &#first)),
        };
        let out = quote!(#receiver.#method #turbofish (#(#args),*));
        let recorded = self.recorded_call(&layer, method, input.as_ref(), &out);
        let FirstOf { names, values } = first;
        Some(quote_spanned! {Span::mixed_site()=>
            #(#attrs)*
            (match (#(#values,)*) { (#(#names,)*) => { #recorded } })
        })
    }

    /// Rewrites `x.apply(&self.fc1)`.
    fn call_with_layer(&self, call: &ExprMethodCall) -> Option<TokenStream> {
        let Expr::Reference(reference) = call.args.first()? else { return None };
        let layer = Layer::of(&reference.expr)?;
        let ExprMethodCall { attrs, receiver, method, turbofish, args, .. } = call;
        let input = quote_spanned!(Span::mixed_site()=> __input);
        let out = quote_spanned!(Span::mixed_site()=> __input.#method #turbofish (#args));
        let recorded = self.recorded_call(&layer, &call.method, Some(&input), &out);
        Some(quote_spanned! {Span::mixed_site()=>
            #(#attrs)*
            (match (&#receiver,) { (__input,) => { #recorded } })
        })
    }

    fn recorded_call(
        &self,
        layer: &Layer<'_>,
        at: &Ident,
        input: Option<&TokenStream>,
        call: &TokenStream,
    ) -> TokenStream {
        let rl = self.args.runtime();
        let site = forward::site(&rl, &layer.name, at, &[]);
        let module = layer.place.map(|place| {
            let is_field = layer.is_field;
            let value = quote_spanned!(Span::mixed_site()=> &#place);
            let look = self.args.look(&value, "runlore_module");
            quote_spanned! {Span::mixed_site()=>
                let __pass = __pass.module(#rl::type_name_of(&#place), #is_field, |__see| #look);
            }
        });
        let input = input.map(|input| {
            let look = self.args.look(input, "runlore_tensor");
            quote_spanned!(Span::mixed_site()=> .input_with("tensor", |__see| #look))
        });
        let (sync, end) = (self.args.sync(), self.args.end());
        quote_spanned! {Span::mixed_site()=>
            #site
            let __pass = #rl::Forward::layer_at(&__SITE) #sync;
            #module
            let __pass = __pass #input .start();
            let __out = #call;
            #end
            __out
        }
    }
}

/// The expressions that are evaluated before a call, in their order in the call.
#[derive(Default)]
struct FirstOf {
    names: Vec<TokenStream>,
    values: Vec<TokenStream>,
}

impl FirstOf {
    /// Evaluates `expr` before the call. Returns its name for use in the call.
    fn value(&mut self, expr: &Expr) -> TokenStream {
        let name = Ident::new(&format!("__first_{}", self.names.len()), Span::mixed_site());
        self.names.push(name.to_token_stream());
        self.values.push(expr.to_token_stream());
        name.into_token_stream()
    }

    /// Evaluates the parts of a place expression that have side effects. Returns the place for use
    /// in the call. A value that is not a place is stored in a mutable variable, which the call may
    /// change.
    fn place(&mut self, expr: &Expr) -> TokenStream {
        match expr {
            expr if is_place(expr) => expr.to_token_stream(),
            Expr::Paren(inner) => self.place(&inner.expr),
            Expr::Group(inner) => self.place(&inner.expr),
            Expr::Field(field) => {
                let (base, member) = (self.place(&field.base), &field.member);
                quote!(#base.#member)
            }
            Expr::Index(index) => {
                let base = self.place(&index.expr);
                let at = match does_nothing(&index.index) {
                    true => index.index.to_token_stream(),
                    false => self.value(&index.index),
                };
                quote!(#base[#at])
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => {
                let inner = self.place(&unary.expr);
                quote!((*#inner))
            }
            expr => {
                let place = self.value(expr);
                if let Some(name) = self.names.last_mut() {
                    *name = quote_spanned!(Span::mixed_site()=> mut #name);
                }
                place
            }
        }
    }
}

/// Whether evaluating the expression has no side effects, so that it can be delayed.
fn does_nothing(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) | Expr::Closure(_) => true,
        Expr::Reference(reference) => is_place(&reference.expr),
        expr => is_place(expr),
    }
}

/// A layer that the pass calls.
struct Layer<'a> {
    name: String,
    /// The layer's place expression. `None` if evaluating it may have side effects.
    place: Option<&'a Expr>,
    /// Whether the layer is a field of the model itself.
    is_field: bool,
}

impl<'a> Layer<'a> {
    /// Finds the layer in a receiver. `None` if it is the model itself.
    fn of(receiver: &'a Expr) -> Option<Self> {
        let base = base(receiver);
        if is_self(base) {
            return None;
        }
        let text = source::text(base.to_token_stream());
        let name = text.strip_prefix("self.").or(text.strip_prefix("self . ")).unwrap_or(&text);
        Some(Self {
            name: name.to_owned(),
            place: is_place(receiver).then_some(receiver),
            is_field: is_field_of_self(base),
        })
    }
}

/// Returns the first expression of a chain such as `self.conv.as_ref()?.inner()`.
fn base(expr: &Expr) -> &Expr {
    match expr {
        Expr::MethodCall(call) => base(&call.receiver),
        Expr::Try(inner) => base(&inner.expr),
        Expr::Paren(inner) => base(&inner.expr),
        Expr::Group(inner) => base(&inner.expr),
        Expr::Reference(inner) => base(&inner.expr),
        Expr::Unary(inner) => base(&inner.expr),
        expr => expr,
    }
}

/// Whether the expression is a place that can be evaluated twice without changing the result.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(field) => is_place(&field.base),
        Expr::Index(index) => {
            is_place(&index.expr)
                && (is_place(&index.index) || matches!(*index.index, Expr::Lit(_)))
        }
        Expr::Paren(inner) => is_place(&inner.expr),
        Expr::Group(inner) => is_place(&inner.expr),
        _ => false,
    }
}

fn is_self(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(path) if path.path.is_ident("self"))
}

/// Whether the expression is like `self.fc1`, `self.0` or `self.layers[2]`.
fn is_field_of_self(expr: &Expr) -> bool {
    match expr {
        Expr::Index(index) => is_field_of_self(&index.expr),
        Expr::Field(field) => {
            is_self(&field.base) && matches!(field.member, Member::Named(_) | Member::Unnamed(_))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(source: &str) -> Option<(String, bool, bool)> {
        let expr: Expr = syn::parse_str(source).expect("an expression");
        Layer::of(&expr)
            .map(|layer| (layer.name.replace(' ', ""), layer.place.is_some(), layer.is_field))
    }

    #[test]
    fn layers_are_named_after_where_they_are() {
        let known = |name: &str, place, field| Some((name.to_owned(), place, field));
        assert_eq!(layer("self.fc1"), known("fc1", true, true));
        assert_eq!(layer("self.layers[2]"), known("layers[2]", true, true));
        assert_eq!(layer("self.body.fc1"), known("body.fc1", true, false));
        assert_eq!(layer("layer"), known("layer", true, false));
        assert_eq!(layer("self.conv.as_ref().unwrap()"), known("conv", false, true));
        assert_eq!(layer("self.layers[next()]"), known("layers[next()]", false, true));
        assert_eq!(layer("self"), None);
        assert_eq!(layer("self.make()"), None);
    }
}
