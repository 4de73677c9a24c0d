//! `#[telemetry_forward]`: generates a forward pass that records itself and its layers.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, LitStr, Path, ReceiverKind, Result, ReturnType};

use crate::args::{at_task, equals, label, separated, string};
use crate::body::Body;
use crate::errors::Errors;
use crate::expand::nameable;
use crate::function::Function;
use crate::layers;
use crate::nearest::suggestion;
use crate::site::Site;

const NAMES: [&str; 5] = ["tensors", "name", "training", "sync", "crate"];

/// The parsed arguments of `#[telemetry_forward]`.
#[derive(Default)]
pub(crate) struct Args {
    name: Option<LitStr>,
    training: Option<Expr>,
    tensors: Option<Path>,
    waits: bool,
    krate: Option<Path>,
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut args = Self::default();
        let mut seen = Vec::new();
        let read = |input: ParseStream<'_>| {
            separated(input, errors, |input, _| args.argument(input, &mut seen));
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            errors.push(error);
        }
        args
    }

    fn argument(&mut self, input: ParseStream<'_>, seen: &mut Vec<String>) -> Result<()> {
        let word = input.call(Ident::parse_any).map_err(|error| {
            Error::new(
                error.span(),
                "expected the name of an argument, such as `tensors = runlore_burn`",
            )
        })?;
        let key = label(&word);
        if seen.contains(&key) {
            return Err(Error::new(word.span(), format!("`{key}` is given twice")));
        }
        match key.as_str() {
            "name" => self.name = Some(string(input, &word)?),
            "training" => {
                equals(input, &word, "an expression", " = self.training")?;
                self.training = Some(input.parse()?);
            }
            "tensors" => {
                equals(input, &word, "a crate", " = runlore_burn")?;
                self.tensors = Some(input.call(Path::parse_mod_style)?);
            }
            "sync" => {
                at_task(input, &word)?;
                self.waits = true;
            }
            "crate" => {
                equals(input, &word, "a path", " = path::to::runlore")?;
                self.krate = Some(input.call(Path::parse_mod_style)?);
            }
            unknown => {
                let hint = suggestion(unknown, &NAMES, "the arguments are");
                let message = format!("unknown argument `{unknown}`: {hint}");
                return Err(Error::new(word.span(), message));
            }
        }
        seen.push(key);
        Ok(())
    }

    /// Returns the path to the runtime module (`runlore::__private`).
    pub(crate) fn runtime(&self) -> TokenStream {
        match &self.krate {
            Some(path) => quote_spanned!(Span::mixed_site()=> #path::__private),
            None => quote_spanned!(Span::mixed_site()=> ::runlore::__private),
        }
    }

    /// Generates code that passes the tensors, or the module, in `value` to `__see`. See [`look`].
    pub(crate) fn look(&self, value: &TokenStream, what: &str) -> TokenStream {
        look(&self.runtime(), self.tensors.as_ref(), value, what)
    }

    /// Generates the call that makes a pass wait for its device, if `sync` is set. It must precede
    /// the start of the pass.
    pub(crate) fn sync(&self) -> Option<TokenStream> {
        self.waits.then(|| quote_spanned!(Span::mixed_site()=> .sync()))
    }

    /// Generates the code that ends a pass with its output.
    pub(crate) fn end(&self) -> TokenStream {
        let rl = self.runtime();
        let look = self.look(&quote_spanned!(Span::mixed_site()=> __ok), "runlore_tensor");
        quote_spanned! {Span::mixed_site()=>
            __pass.end(
                &__out,
                |__ret, __see| {
                    if let ::core::option::Option::Some(__ok) = #rl::success!(__ret) #look
                },
                |__ret, __outputs| #rl::outcome!(__outputs, __ret),
            );
        }
    }
}

/// Generates code that passes the tensors, or the module, in `value` to `__see`. `what` is the
/// probe method to call, for example `runlore_tensor` or `runlore_module`. The crate at `tensors`
/// implements it for the framework's types.
pub(crate) fn look(
    rl: &TokenStream,
    tensors: Option<&Path>,
    value: &TokenStream,
    what: &str,
) -> TokenStream {
    let tensors = match tensors {
        Some(path) => quote_spanned!(Span::mixed_site()=> #path::__private::tensors),
        None => quote_spanned!(Span::mixed_site()=> #rl::tensors),
    };
    let method = Ident::new(what, Span::mixed_site());
    quote_spanned! {Span::mixed_site()=>
        {
            #[allow(unused_imports)]
            use #tensors::*;
            (&&&Probe(#value)).#method(__see)
        }
    }
}

/// Reports functions that are not forward passes.
pub(crate) fn check(function: &Function, errors: &mut Errors) {
    let is_deferred = function.is_deferred(false) || function.returns_unseen_future();
    if function.sig.asyncness.is_some() || is_deferred {
        errors.push(Error::new_spanned(
            &function.sig.ident,
            "a forward pass is not asynchronous: #[telemetry_task] records futures",
        ));
    } else if function.is_without_return() {
        errors.push(Error::new_spanned(
            &function.sig.ident,
            "a forward pass returns what comes out of the model, but this function returns nothing",
        ));
    }
}

/// Generates the static that describes a pass or a layer. Its only output is `tensor`.
pub(crate) fn site(rl: &TokenStream, name: &str, at: &Ident, parameters: &[String]) -> TokenStream {
    let site = Site {
        name: name.to_owned(),
        at: crate::location(at),
        parameters: parameters.to_vec(),
        generated: vec!["tensor"],
        ..Site::default()
    };
    site.declare(rl)
}

/// Generates the recording function. As in `#[telemetry_task]`, every generated token has a
/// mixed-site span.
pub(crate) fn expand(args: &Args, function: &Function, body: &Body) -> TokenStream {
    let rl = args.runtime();
    let names: Vec<String> = function.parameters.iter().map(|it| label(&it.ident)).collect();
    let function_name = label(&function.sig.ident);
    let site = site(&rl, &function_name, &function.sig.ident, &names);
    let name = match (&args.name, function.sig.receiver()) {
        (Some(name), _) => name.to_token_stream(),
        (None, Some(_)) => {
            quote_spanned!(Span::mixed_site()=> ::core::any::type_name::<Self>())
        }
        (None, None) => function_name.to_token_stream(),
    };
    let inputs = function.parameters.iter().zip(&names).map(|(parameter, name)| {
        let (ident, cfg) = (&parameter.ident, &parameter.cfg);
        let value = quote_spanned!(Span::mixed_site()=> &#ident);
        let look = args.look(&value, "runlore_tensor");
        quote_spanned! {Span::mixed_site()=>
            #(#cfg)*
            let __pass = __pass.input_with(#name, |__see| #look);
        }
    });
    let training = args.training.as_ref().map(
        |training| quote_spanned!(Span::mixed_site()=> let __pass = __pass.training(#training);),
    );
    // A model that has a profile registers itself.
    let profile =
        function.sig.receiver().filter(|it| matches!(it.kind, ReceiverKind::Reference(..))).map(
            |receiver| {
                let this = &receiver.self_token;
                quote_spanned! {Span::mixed_site()=>
                    let __pass = __pass.registered(|__add| {
                        #[allow(unused_imports)]
                        use #rl::profile_levels::*;
                        (&Part(&*#this)).runlore_profile(__add);
                    });
                }
            },
        );
    let mut stmts = body.stmts();
    layers::record(args, &mut stmts);
    let returned = match &function.sig.output {
        ReturnType::Default => TokenStream::new(),
        ReturnType::Type(arrow, ty) => {
            let ty = nameable(ty);
            quote!(#arrow #ty)
        }
    };
    let (head, attrs, sync, end) = (&function.head, &body.attrs, args.sync(), args.end());
    let mut inner = Group::new(Delimiter::Brace, quote!(#(#stmts)*));
    inner.set_span(body.block.span());
    let work = quote_spanned! {Span::mixed_site()=>
        #site
        #rl::inventory::submit! { #rl::SiteEntry::new(&__SITE) }
        let __pass = #rl::Forward::model_at(&__SITE, #name) #sync;
        #(#inputs)*
        #training
        #profile
        let __pass = __pass.start();
        let __body = #rl::once(move || #returned #inner);
        let __out = __body();
        #end
        __out
    };
    let mut block = Group::new(Delimiter::Brace, work);
    block.set_span(body.block.span());
    quote!(#(#attrs)* #head #block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(tokens: TokenStream) -> Vec<String> {
        let mut errors = Errors::default();
        Args::parse(tokens, &mut errors);
        errors.messages()
    }

    #[test]
    fn arguments_are_read() {
        let mut errors = Errors::default();
        let args = Args::parse(
            quote!(
                tensors = runlore_burn,
                name = "n",
                training = a && b,
                sync = "task",
                crate = a::b
            ),
            &mut errors,
        );
        assert_eq!(errors.messages(), [""; 0]);
        assert!(args.waits && args.name.is_some() && args.training.is_some());
        assert!(args.tensors.is_some() && args.krate.is_some());
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(complaints(quote!(sync = "step")), ["`sync` takes only `\"task\"`"]);
        assert_eq!(complaints(quote!(name = "a", name = "b")), ["`name` is given twice"]);
        assert!(complaints(quote!(tensor = burn))[0].contains("`tensors`"));
    }
}
