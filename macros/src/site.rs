//! The static that describes a call site: everything known about a call at compile time.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::LitStr;

use crate::args::Telemetry;

/// The position of a name in its file. Line and column count from 1.
#[derive(Clone, Copy, Default)]
pub(crate) struct Location {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The contents of the description, without the parts that the compiler fills in. For a pass or a
/// layer most fields are empty.
#[derive(Default)]
pub(crate) struct Site<'a> {
    pub(crate) name: String,
    pub(crate) at: Location,
    pub(crate) parameters: Vec<String>,
    pub(crate) used: Vec<&'a str>,
    pub(crate) generated: Vec<&'a str>,
    pub(crate) metadata: Vec<&'a str>,
    pub(crate) tags: &'a [LitStr],
    pub(crate) subtype: Option<&'a LitStr>,
    /// `None` means as in the settings.
    pub(crate) telemetry: Option<&'a Telemetry>,
    pub(crate) spread: bool,
    pub(crate) summarise_full: bool,
    pub(crate) is_async: bool,
}

impl Site<'_> {
    /// Generates the static `__SITE`. `rl` is the path to the runtime module.
    pub(crate) fn declare(&self, rl: &TokenStream) -> TokenStream {
        let Self { name, parameters, used, generated, metadata, tags, .. } = self;
        let Self { spread, summarise_full, is_async, .. } = self;
        let line = Literal::u32_unsuffixed(self.at.line);
        let column = Literal::u32_unsuffixed(self.at.column);
        let subtype = match self.subtype {
            Some(name) => quote_spanned!(Span::mixed_site()=> ::core::option::Option::Some(#name)),
            None => quote_spanned!(Span::mixed_site()=> ::core::option::Option::None),
        };
        let telemetry = self.telemetry(rl);
        quote_spanned! {Span::mixed_site()=>
            fn __function() -> &'static ::core::primitive::str {
                ::core::any::type_name_of_val(&__function)
            }
            static __SITE: #rl::Site = #rl::Site::new(#rl::SiteSpec {
                name: #name,
                function: __function,
                crate_name: ::core::env!("CARGO_PKG_NAME"),
                crate_version: ::core::env!("CARGO_PKG_VERSION"),
                commit: ::core::option_env!("RUNLORE_GIT_COMMIT"),
                module: ::core::module_path!(),
                file: ::core::file!(),
                line: #line,
                column: #column,
                parameters: &[#(#parameters),*],
                used: &[#(#used),*],
                generated: &[#(#generated),*],
                metadata: &[#(#metadata),*],
                tags: &[#(#tags),*],
                subtype: #subtype,
                telemetry: #telemetry,
                spread: #spread,
                summarise_full: #summarise_full,
                is_async: #is_async,
            });
        }
    }

    fn telemetry(&self, rl: &TokenStream) -> TokenStream {
        let choice = match self.telemetry.unwrap_or(&Telemetry::Default) {
            Telemetry::Default => quote!(Default),
            Telemetry::None => quote!(None),
            Telemetry::Light => quote!(Light),
            Telemetry::Types(types) => {
                let types = types.iter().map(|name| Ident::new(&camel(name), Span::mixed_site()));
                quote_spanned!(Span::mixed_site()=> Types(&[#(#rl::TelemetryType::#types),*]))
            }
        };
        quote_spanned!(Span::mixed_site()=> #rl::TelemetryChoice::#choice)
    }
}

/// Converts `per_cpu` to `PerCpu`.
fn camel(name: &str) -> String {
    let mut camel = String::new();
    for part in name.split('_') {
        let mut chars = part.chars();
        camel.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(chars.as_str());
    }
    camel
}
