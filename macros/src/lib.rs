//! The `#[telemetry_task]` attribute.

mod args;
mod body;
mod errors;
mod expand;
mod function;
mod nearest;
mod source;

use args::Args;
use errors::Errors;
use expand::Location;
use function::Function;
use proc_macro2::TokenStream;

/// Records every call.
#[proc_macro_attribute]
pub fn telemetry_task(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    task(args.into(), item.into()).into()
}

/// On any mistake the item is passed on as it was, so that the only errors are ours about the attribute and
/// rustc's about the user's code.
fn task(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let expanded = match Function::parse(item.clone()) {
        Ok(function) => {
            args.check(&function, &mut errors);
            function
                .body
                .as_ref()
                .filter(|_| errors.is_empty() && cfg!(feature = "capture"))
                .map(|body| {
                    let name = function.sig.ident.span().unwrap();
                    let number = |n: usize| u32::try_from(n).unwrap_or(0);
                    let location = Location {
                        line: number(name.line()),
                        column: number(name.column()),
                    };
                    expand::expand(&args, &function, body, location)
                })
        }
        Err(error) => {
            errors.push(error);
            None
        }
    };
    let mut tokens = expanded.unwrap_or(item);
    tokens.extend(errors.into_compile_errors());
    tokens
}
