//! Checks the attribute's arguments against the annotated function.

use proc_macro2::Span;
use syn::{Error, LitStr};

use crate::args::{Args, Output, label};
use crate::errors::Errors;
use crate::function::{Function, Returned};
use crate::nearest::suggestion;

impl Args {
    /// Reports arguments that do not fit the annotated function.
    pub(crate) fn check(&self, function: &Function, errors: &mut Errors) {
        self.check_parameters(function, errors);
        self.check_future(function, errors);
        self.check_returned(function, errors);
    }

    fn check_parameters(&self, function: &Function, errors: &mut Errors) {
        let names: Vec<String> = function.parameters.iter().map(|p| label(&p.ident)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let of = label(&function.sig.ident);
        for ident in &self.skip {
            let skipped = label(ident);
            if skipped == "self" {
                errors.push(Error::new(
                    ident.span(),
                    "`self` is recorded only when `used(self)` asks for it: nothing to skip",
                ));
            } else if names.is_empty() {
                errors.push(Error::new(
                    ident.span(),
                    format!("`{skipped}` is not a parameter of `{of}`, which has none"),
                ));
            } else if !names.contains(&skipped.as_str()) {
                let hint = suggestion(&skipped, &names, "it has");
                errors.push(Error::new(
                    ident.span(),
                    format!("`{skipped}` is not a parameter of `{of}`: {hint}"),
                ));
            }
        }
        if function.sig.receiver().is_none()
            && let Some(field) = self.used.iter().find(|field| field.key == "self")
        {
            errors.push(Error::new(field.key.span(), format!("`{of}` has no `self` to record")));
        }
    }

    fn check_future(&self, function: &Function, errors: &mut Errors) {
        let is_future =
            function.sig.asyncness.is_some() || function.is_deferred(self.future.is_some());
        if let Some(sync) = self.sync.filter(|_| is_future) {
            errors.push(Error::new(
                sync,
                "`sync` would block the thread that polls the future: wait for the device in the body",
            ));
        }
        match self.future {
            Some(future) if function.sig.asyncness.is_some() => errors.push(Error::new(
                future,
                "an `async fn` is recorded from its first poll to its end anyway: remove `future`",
            )),
            Some(future) if function.is_without_return() => errors.push(Error::new(
                future,
                "`future` is for a function that returns a future, but this one returns nothing",
            )),
            None if function.returns_unseen_future() => errors.push(Error::new_spanned(
                &function.sig.output,
                "this function returns a future whose work happens later: add the argument `future` to record it",
            )),
            _ => {}
        }
    }

    fn check_returned(&self, function: &Function, errors: &mut Errors) {
        let mut nothing = |span, what: &str| {
            errors.push(Error::new(
                span,
                format!("`{}` returns no value {what}", label(&function.sig.ident)),
            ));
        };
        match (function.returned(), &self.output) {
            (Returned::Value(_), Some(Output::Parts(names))) => {
                if let Some(parts) = function.returned_parts()
                    && let Some(name) = names.get(parts)
                {
                    errors.push(Error::new(
                        name.span(),
                        format!("{} names for a tuple of {parts}", names.len()),
                    ));
                }
            }
            (Returned::Value(_), _) => {}
            (_, Some(Output::Whole(name))) => nothing(name.span(), "to name"),
            (_, Some(Output::Parts(names))) => {
                nothing(names.first().map_or_else(Span::call_site, LitStr::span), "to name");
            }
            (_, None) => {
                if let Some(spread) = self.spread {
                    nothing(spread, "to spread");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;

    use super::*;

    fn misfits(args: TokenStream, function: TokenStream) -> Vec<String> {
        let mut errors = Errors::default();
        let function = Function::parse(function, "telemetry_task").expect("a function");
        Args::parse(args, &mut errors).check(&function, &mut errors);
        errors.messages()
    }

    #[test]
    fn what_is_skipped_must_exist() {
        let function = quote!(
            fn f(&self, (apple, pear): (u8, u8)) {}
        );
        assert_eq!(misfits(quote!(skip(apple, pear)), function.clone()), [""; 0]);
        assert_eq!(
            misfits(quote!(skip(aple, self)), function),
            [
                "`aple` is not a parameter of `f`: did you mean `apple`?",
                "`self` is recorded only when `used(self)` asks for it: nothing to skip"
            ]
        );
        assert_eq!(
            misfits(
                quote!(skip(a), used(self)),
                quote!(
                    fn f() {}
                )
            ),
            ["`a` is not a parameter of `f`, which has none", "`f` has no `self` to record"]
        );
    }

    #[test]
    fn names_need_a_value() {
        for nothing in [quote!(), quote!(-> ()), quote!(-> Result<(), E>), quote!(-> !)] {
            let function = quote!(fn f() #nothing { todo!() });
            let complaint = ["`f` returns no value to name"];
            assert_eq!(misfits(quote!(output = "y"), function.clone()), complaint);
            assert_eq!(misfits(quote!(outputs("y")), function.clone()), complaint);
            assert_eq!(misfits(quote!(spread), function), ["`f` returns no value to spread"]);
        }
        let pair = quote!(
            async fn f() -> io::Result<(A, B)> {
                todo!()
            }
        );
        assert_eq!(misfits(quote!(outputs("a", "b")), pair.clone()), [""; 0]);
        assert_eq!(misfits(quote!(outputs("a", "b", "c")), pair), ["3 names for a tuple of 2"]);
    }

    #[test]
    fn a_future_does_not_wait_for_a_device() {
        let complaint =
            "`sync` would block the thread that polls the future: wait for the device in the body";
        let function = quote!(
            async fn f() {}
        );
        assert_eq!(misfits(quote!(sync = "task"), function), [complaint]);
        let function = quote!(
            fn f() {}
        );
        assert_eq!(misfits(quote!(sync = "task"), function), [""; 0]);
    }

    #[test]
    fn a_future_out_of_sight_is_asked_for() {
        let unseen = quote!(
            fn f() -> Pin<Box<dyn Future<Output = u8>>> {
                g()
            }
        );
        assert_eq!(misfits(quote!(), unseen.clone()).len(), 1);
        assert_eq!(misfits(quote!(future), unseen), [""; 0]);
        let seen = quote!(
            fn f() -> impl Future<Output = u8> {
                async move { 1 }
            }
        );
        assert_eq!(misfits(quote!(), seen), [""; 0]);
        assert_eq!(
            misfits(
                quote!(future),
                quote!(
                    async fn f() {}
                )
            )
            .len(),
            1
        );
        assert_eq!(
            misfits(
                quote!(future),
                quote!(
                    fn f() {}
                )
            )
            .len(),
            1
        );
    }
}
