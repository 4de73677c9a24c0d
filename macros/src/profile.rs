//! `#[derive(ModelProfile)]`: describes a model by its fields.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Error, Fields, Path, Result};

use crate::forward::look;

/// The parsed `#[profile(…)]` of a struct.
#[derive(Default)]
struct Args {
    tensors: Option<Path>,
    krate: Option<Path>,
}

impl Args {
    fn parse(input: &DeriveInput) -> Result<Self> {
        let mut args = Self::default();
        for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("profile")) {
            attr.parse_nested_meta(|meta| {
                let to = match &meta.path {
                    path if path.is_ident("tensors") => &mut args.tensors,
                    path if path.is_ident("crate") => &mut args.krate,
                    _ => return Err(meta.error("the arguments are `tensors` and `crate`")),
                };
                *to = Some(meta.value()?.call(Path::parse_mod_style)?);
                Ok(())
            })?;
        }
        Ok(args)
    }
}

/// Implements `Profiled`. Each field is described by what its type supports; see [`look`].
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let args = Args::parse(input)?;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(
            &input.ident,
            "only a struct has a profile: a model's modules are its fields",
        ));
    };
    let rl = match &args.krate {
        Some(path) => quote_spanned!(Span::mixed_site()=> #path::__private),
        None => quote_spanned!(Span::mixed_site()=> ::runlore::__private),
    };
    let fields = match &data.fields {
        Fields::Unit => Vec::new(),
        fields => fields.members().zip(fields).collect(),
    };
    let fields = fields.into_iter().map(|(member, field)| {
        let name = match &member {
            syn::Member::Named(name) => crate::args::label(name),
            syn::Member::Unnamed(index) => index.index.to_string(),
        };
        let cfg = field.attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
        let value = quote_spanned!(Span::mixed_site()=> &self.#member);
        let see = |what| look(&rl, args.tensors.as_ref(), &value, what);
        let (tensors, module) = (see("runlore_tensors"), see("runlore_module"));
        quote_spanned! {Span::mixed_site()=>
            #(#cfg)*
            {
                #[allow(unused_imports)]
                use #rl::profile_levels::*;
                let __at = #rl::member_path(__path, #name);
                { let __see = &mut |__tensor: &dyn #rl::Inspect| __model.tensor(&__at, __tensor); #tensors }
                {
                    let __see = &mut |__module: &dyn #rl::Attributes| {
                        __model.layer(&__at, #rl::type_name_of(#value), __module);
                    };
                    #module
                }
                (&Part(#value)).runlore_describe(&__at, __model);
            }
        }
    });
    let (name, (generics, arguments, bounds)) = (&input.ident, input.generics.split_for_impl());
    let used = quote!(#(#fields)*);
    Ok(quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        impl #generics #rl::Profiled for #name #arguments #bounds {
            fn describe(&self, __path: &str, __model: &mut #rl::ModelProfile) {
                __model.module(__path, #rl::short_type_name::<Self>());
                #used
            }
        }
    })
}
