//! Generates the function that records its calls.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, ExprAsync, Index, LitStr, Receiver, ReceiverKind, ReturnType, Token, Type, TypeInfer,
};

use crate::args::{Args, Output, label};
use crate::body::{self, Body};
use crate::forward;
use crate::function::{Function, Parameter, Returned};
use crate::site::{Location, Site};
use crate::source;

/// Generates the recording function. Every generated token has a mixed-site span, so that generated
/// variables cannot collide with the user's, and lints in the user's crate ignore the generated
/// code.
pub(crate) fn expand(
    args: &Args,
    function: &Function,
    body: &Body,
    location: Location,
) -> TokenStream {
    let plan = Plan::new(args, function);
    let site = plan.site(location);
    let work = if function.sig.asyncness.is_some() {
        plan.async_fn(body)
    } else if function.is_deferred(args.future.is_some()) {
        plan.deferred(body)
    } else {
        plan.sync(body)
    };
    let head = &function.head;
    let attrs = &body.attrs;
    // Use the span of the user's braces, so that tools still find the function where it was
    // written.
    let mut block = Group::new(Delimiter::Brace, quote!(#site #work));
    block.set_span(body.block.span());
    quote!(#(#attrs)* #head #block)
}

/// What to record: the expressions, in the order of their indexes.
struct Plan<'a> {
    args: &'a Args,
    function: &'a Function,
    /// The path to the runtime module (`runlore::__private`).
    rl: TokenStream,
    used: Vec<Value>,
    metadata: Vec<Value>,
    generated: Vec<Value>,
    /// The name of the returned value in the user's expressions.
    ret: Ident,
}

struct Value {
    name: String,
    value: TokenStream,
    cfg: Vec<Attribute>,
}

fn names(values: &[Value]) -> Vec<&str> {
    values.iter().map(|value| &*value.name).collect()
}

impl<'a> Plan<'a> {
    fn new(args: &'a Args, function: &'a Function) -> Self {
        let rl = match &args.krate {
            Some(path) => quote_spanned!(Span::mixed_site()=> #path::__private),
            None => quote_spanned!(Span::mixed_site()=> ::runlore::__private),
        };
        let ret = Ident::new("ret", Span::call_site());
        let metadata = args.metadata.iter().map(|field| Value::new(field.label(), &field.value));
        Self {
            args,
            function,
            rl,
            used: used(args, function),
            metadata: metadata.collect(),
            generated: generated(args, function, &ret),
            ret,
        }
    }

    /// Generates the static that describes the function, and registers it in the catalogue.
    fn site(&self, at: Location) -> TokenStream {
        let Self { args, function, rl, .. } = self;
        let name = args.name.as_ref().map_or_else(|| label(&function.sig.ident), LitStr::value);
        let is_deferred = function.is_deferred(args.future.is_some());
        let site = Site {
            name,
            at,
            parameters: function.parameters.iter().map(|it| label(&it.ident)).collect(),
            used: names(&self.used),
            generated: names(&self.generated),
            metadata: names(&self.metadata),
            tags: &args.tags,
            subtype: args.subtype.as_ref(),
            telemetry: Some(&args.telemetry),
            spread: args.spread.is_some(),
            summarise_full: args.summarise_full,
            is_async: function.sig.asyncness.is_some() || is_deferred,
        };
        let site = site.declare(rl);
        quote_spanned! {Span::mixed_site()=>
            #site
            #rl::inventory::submit! { #rl::SiteEntry::new(&__SITE) }
        }
    }

    fn sync(&self, body: &Body) -> TokenStream {
        let Self { rl, .. } = self;
        let (allow, capture, outcome) = (self.allow(), self.capture(), self.outcome());
        let run = self.closure(body);
        let waits =
            self.args.sync.is_some() && !matches!(self.function.returned(), Returned::Never);
        let (wait, inputs, waiting) = if waits {
            let (wait, inputs, waiting) = self.wait();
            (Some(wait), Some(inputs), waiting)
        } else {
            (None, None, quote_spanned!(Span::mixed_site()=> __body))
        };
        quote_spanned! {Span::mixed_site()=>
            let mut __slot = #rl::TaskSlot::new();
            #wait
            if #rl::enabled() {
                #allow
                __slot.begin(&__SITE, #capture);
                #inputs
            }
            let __body = #run;
            if __slot.is_armed() {
                __slot.run(#waiting, #outcome)
            } else {
                __body()
            }
        }
    }

    /// Generates the code that waits for the device: the declaration of the wait, the code that
    /// shows it the arguments, and the body followed by the wait.
    fn wait(&self) -> (TokenStream, TokenStream, TokenStream) {
        let Self { rl, .. } = self;
        let tensors = self.args.tensors.as_ref();
        let look = |value: &TokenStream| forward::look(rl, tensors, value, "runlore_tensor");
        let parameters = self.function.parameters.iter();
        let inputs = parameters.filter(|it| !label(&it.ident).starts_with('_')).map(|parameter| {
            let Parameter { ident, cfg, .. } = parameter;
            let look = look(&quote_spanned!(Span::mixed_site()=> &#ident));
            quote_spanned! {Span::mixed_site()=>
                #(#cfg)*
                {
                    let __see = &mut |__tensor: &dyn #rl::Inspect| __wait.input(__tensor);
                    #look;
                }
            }
        });
        let look = look(&quote_spanned!(Span::mixed_site()=> __ok));
        let waiting = quote_spanned! {Span::mixed_site()=>
            move || {
                let __out = __body();
                __wait.until(|__see| {
                    if let ::core::option::Option::Some(__ok) = #rl::success!(&__out) #look
                });
                __out
            }
        };
        (
            quote_spanned!(Span::mixed_site()=> let mut __wait = #rl::Wait::default();),
            quote!(#(#inputs)*),
            waiting,
        )
    }

    fn async_fn(&self, body: &Body) -> TokenStream {
        let Self { rl, .. } = self;
        let (allow, capture) = (self.allow(), self.capture());
        let (hold, edge) = (self.hold(body), self.edge());
        let block = body.led_by(&quote!(#hold #edge));
        let run = self.tasked(&quote_spanned!(Span::mixed_site()=> async move #block));
        quote_spanned! {Span::mixed_site()=>
            let mut __task = #rl::AsyncTask::new();
            if #rl::enabled() {
                #allow
                __task.begin(&__SITE, #capture);
            }
            #run
        }
    }

    /// Generates a function that does its work in the future it returns. The arguments are copied
    /// at the call, because the body may move them before the task begins at the future's first
    /// poll.
    fn deferred(&self, body: &Body) -> TokenStream {
        let Self { rl, .. } = self;
        let (allow, capture) = (self.allow(), self.capture());
        let work = match body.with_last_future(|future| self.last_future(future)) {
            Some(stmts) => body::inlined(&stmts, body.block.span()),
            None => self.any_future(body),
        };
        quote_spanned! {Span::mixed_site()=>
            #allow
            let __captured = if #rl::enabled() {
                ::core::option::Option::Some(#rl::Captured::of(&__SITE, #capture))
            } else {
                ::core::option::Option::None
            };
            #work
        }
    }

    fn last_future(&self, future: &ExprAsync) -> TokenStream {
        let ExprAsync { attrs, async_token, capture, block, .. } = future;
        let block = body::led_by(&self.edge(), &block.stmts, block.brace_token.span.join());
        let run = self.captured(&quote!(#async_token #capture #block));
        quote_spanned!(Span::mixed_site()=> #(#attrs)* #run)
    }

    fn any_future(&self, body: &Body) -> TokenStream {
        let make = self.closure(body);
        let run = self.captured(&quote_spanned!(Span::mixed_site()=> __future));
        let run = if self.function.returns_impl() {
            run
        } else {
            quote_spanned!(Span::mixed_site()=> ::std::boxed::Box::pin(#run))
        };
        quote_spanned! {Span::mixed_site()=>
            let __make = #make;
            let __future = __make();
            #run
        }
    }

    fn captured(&self, future: &TokenStream) -> TokenStream {
        let Self { rl, .. } = self;
        let run = self.tasked(future);
        quote_spanned! {Span::mixed_site()=>
            async move {
                let mut __task = #rl::AsyncTask::new();
                __task.begin_captured(__captured);
                #run
            }
        }
    }

    fn tasked(&self, future: &TokenStream) -> TokenStream {
        let Self { rl, .. } = self;
        let outcome = self.outcome();
        quote_spanned! {Span::mixed_site()=>
            let __body = ::core::pin::pin!(#future);
            #rl::Tasked::new(&mut __task, __body, #outcome).await
        }
    }

    fn closure(&self, body: &Body) -> TokenStream {
        let rl = &self.rl;
        let hold = self.hold(body);
        let block = if hold.is_empty() { body.block.clone() } else { body.led_by(&hold) };
        let returned = match &self.function.sig.output {
            ReturnType::Default => quote_spanned!(Span::mixed_site()=> -> ()),
            ReturnType::Type(arrow, ty) => {
                let ty = nameable(ty);
                quote!(#arrow #ty)
            }
        };
        quote_spanned!(Span::mixed_site()=> #rl::once(move || #returned #block))
    }

    /// Moves the arguments into the body's closure or `async` block, each as a whole. Captures are
    /// dropped in the order in which they are captured, and a function drops its parameters in
    /// reverse order, so the parameters are captured in reverse. A borrow captures them, so that a
    /// parameter's `mut` stays valid.
    fn hold(&self, body: &Body) -> TokenStream {
        let parameters = self.function.parameters.iter().rev();
        let held = parameters.filter(|parameter| self.is_held(parameter, body));
        let held = held.map(|Parameter { ident, cfg, .. }| {
            let allow = label(ident).starts_with('_').then(allow_underscore);
            quote_spanned!(Span::mixed_site()=> #(#cfg)* #allow let _ = &#ident;)
        });
        // The receiver is the first parameter, so it is captured last.
        let receiver = match self.function.sig.receiver() {
            Some(Receiver { kind: ReceiverKind::Reference(..), .. }) | None => TokenStream::new(),
            Some(_) if self.is_wanted_later("self") => TokenStream::new(),
            Some(Receiver { self_token, .. }) => {
                quote_spanned!(Span::mixed_site()=> let _ = &#self_token;)
            }
        };
        quote!(#(#held)* #receiver)
    }

    fn is_held(&self, parameter: &Parameter, body: &Body) -> bool {
        let name = label(&parameter.ident);
        // A reference needs no capture, because dropping it does nothing. Capturing an unused
        // parameter would suppress the compiler's warning about it.
        let is_told = self.used.iter().any(|value| value.name == name);
        let is_used = is_told || name.starts_with('_') || body.mentions(&name);
        !parameter.is_reference && is_used && !self.is_wanted_later(&name)
    }

    /// Whether `generated` or `fail_if` uses the name. The body must not capture it then.
    fn is_wanted_later(&self, name: &str) -> bool {
        let Args { fail_if, generated, .. } = self.args;
        let generated = generated.iter().map(|field| field.value.to_token_stream());
        let fail_if = fail_if.iter().map(ToTokens::to_token_stream);
        fail_if.chain(generated).any(|tokens| body::mentions(tokens, name))
    }

    /// Generates an early return that is never taken. It gives type inference the block's return
    /// type before the user's code.
    fn edge(&self) -> TokenStream {
        let unit = Type::Tuple(syn::TypeTuple {
            attrs: Vec::new(),
            paren_token: syn::token::Paren(Span::mixed_site()),
            elems: syn::punctuated::Punctuated::new(),
        });
        let ty = match (&self.function.sig.output, self.function.sig.asyncness) {
            (ReturnType::Default, _) => &unit,
            (ReturnType::Type(_, ty), Some(_)) => ty,
            (ReturnType::Type(..), None) => match self.function.future_type() {
                Some(ty) => ty,
                None => return TokenStream::new(),
            },
        };
        let ty = nameable(ty);
        // `!` cannot be written here, and `_` would not help inference.
        if matches!(ty, Type::Infer(_) | Type::Never(_)) {
            return TokenStream::new();
        }
        // Locate it at the return type, because a type error in the body points here for what was
        // expected.
        quote_spanned! {Span::mixed_site().located_at(ty.span())=>
            if let ::core::option::Option::Some(__edge) = ::core::option::Option::None::<#ty> {
                return __edge;
            }
        }
    }

    /// Generates code that copies a value. If the attribute names a crate for tensors, tensors are
    /// tried first.
    fn copy(&self, kind: &str, to: &TokenStream, index: usize, value: &TokenStream) -> TokenStream {
        let rl = &self.rl;
        let kind = Ident::new(kind, Span::mixed_site());
        let index = Literal::usize_unsuffixed(index);
        // With `sync`, the task waits for the device, so no work is outstanding.
        let settled = self
            .args
            .sync
            .map(|_| quote_spanned!(Span::mixed_site()=> __to.set_outstanding(false);));
        let copy = match &self.args.tensors {
            None if settled.is_none() => {
                return quote_spanned!(Span::mixed_site()=> #rl::#kind!(#to, #index, #value););
            }
            None => quote_spanned!(Span::mixed_site()=> #rl::value!(__to, #value);),
            tensors => {
                let value_of = quote_spanned!(Span::mixed_site()=> &#value);
                let look = forward::look(rl, tensors.as_ref(), &value_of, "runlore_tensors");
                quote_spanned! {Span::mixed_site()=>
                    if !#rl::encode_tensors(__to, |__see| #look) {
                        #rl::value!(__to, #value);
                    }
                }
            }
        };
        quote_spanned!(Span::mixed_site()=> #to.#kind(#index, |__to| { #copy #settled });)
    }

    /// Generates the closure that copies the arguments.
    fn capture(&self) -> TokenStream {
        if self.used.is_empty() && self.metadata.is_empty() {
            return quote_spanned!(Span::mixed_site()=> |_| {});
        }
        let used = self.used.iter().enumerate().map(|(index, Value { value, cfg, .. })| {
            let copy =
                self.copy("used", &quote_spanned!(Span::mixed_site()=> __inputs), index, value);
            quote_spanned!(Span::mixed_site()=> #(#cfg)* #copy)
        });
        let metadata = self.metadata.iter().enumerate().map(|(index, Value { value, .. })| {
            self.copy("metadata", &quote_spanned!(Span::mixed_site()=> __inputs), index, value)
        });
        quote_spanned!(Span::mixed_site()=> |__inputs| { #(#used)* #(#metadata)* })
    }

    /// Generates the closure that inspects the returned value.
    fn outcome(&self) -> TokenStream {
        let Self { rl, ret, .. } = self;
        if matches!(self.function.returned(), Returned::Never) {
            return quote_spanned!(Span::mixed_site()=> |_, _| {});
        }
        let fail_if = self.args.fail_if.as_ref().map(|condition| {
            let text = source::text(condition.to_token_stream());
            quote_spanned! {Span::mixed_site()=>
                let __failed: ::core::primitive::bool = #condition;
                __outputs.fail_if(__failed, #text);
            }
        });
        let generated = self.generated.iter().enumerate().map(|(index, Value { value, .. })| {
            self.copy("generated", &quote_spanned!(Span::mixed_site()=> __outputs), index, value)
        });
        let success = (fail_if.is_some() || !self.generated.is_empty()).then(|| {
            quote_spanned! {Span::mixed_site()=>
                if let ::core::option::Option::Some(#ret) = #rl::success!(__ret) {
                    #fail_if
                    #(#generated)*
                }
            }
        });
        quote_spanned! {Span::mixed_site()=>
            move |__ret, __outputs| {
                #rl::outcome!(__outputs, __ret);
                #success
            }
        }
    }

    fn allow(&self) -> Option<TokenStream> {
        self.used.iter().any(|value| value.name.starts_with('_')).then(allow_underscore)
    }
}

/// Recording `_x` reads it, and clippy would report that in the user's crate.
fn allow_underscore() -> TokenStream {
    quote_spanned!(Span::mixed_site()=> #[allow(clippy::used_underscore_binding)])
}

impl Value {
    fn new(name: String, value: impl ToTokens) -> Self {
        Self { name, value: value.into_token_stream(), cfg: Vec::new() }
    }
}

/// Returns the recorded parameters, followed by the expressions of `used(…)`. An expression with
/// the name of a parameter replaces the parameter.
fn used(args: &Args, function: &Function) -> Vec<Value> {
    let mut values = Vec::new();
    for parameter in &function.parameters {
        let name = label(&parameter.ident);
        let skipped = args.skip_all || args.skip.iter().any(|skip| label(skip) == name);
        let replaced = args.used.iter().any(|field| field.label() == name);
        if !skipped && !replaced {
            let value = parameter.ident.to_token_stream();
            values.push(Value { name, value, cfg: parameter.cfg.clone() });
        }
    }
    values.extend(args.used.iter().map(|field| Value::new(field.label(), &field.value)));
    values
}

/// Returns the expressions recorded after the body. With `spread`, the value itself comes first.
fn generated(args: &Args, function: &Function, ret: &Ident) -> Vec<Value> {
    let whole = |name: String| Value::new(name, quote_spanned!(Span::mixed_site()=> *#ret));
    let returns_value = matches!(function.returned(), Returned::Value(_));
    let mut values = match &args.output {
        Some(Output::Whole(name)) => vec![whole(name.value())],
        Some(Output::Parts(names)) => names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                // Give the index the span of its name, so that the compiler reports a missing
                // element there.
                let index =
                    Index { index: u32::try_from(index).unwrap_or(u32::MAX), span: name.span() };
                Value::new(name.value(), quote_spanned!(Span::mixed_site()=> #ret.#index))
            })
            .collect(),
        None if returns_value && (args.spread.is_some() || args.generated.is_empty()) => {
            vec![whole("value".to_owned())]
        }
        None => Vec::new(),
    };
    values.extend(args.generated.iter().map(|field| Value::new(field.label(), &field.value)));
    values
}
/// Returns the type with `_` for every `impl Trait`, which is valid only in a signature.
pub(crate) fn nameable(ty: &Type) -> Type {
    struct Erase;
    impl VisitMut for Erase {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if matches!(ty, Type::ImplTrait(_)) {
                let underscore_token = Token![_](Span::mixed_site());
                *ty = Type::Infer(TypeInfer { attrs: Vec::new(), underscore_token });
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }
    let mut ty = ty.clone();
    Erase.visit_type_mut(&mut ty);
    ty
}
