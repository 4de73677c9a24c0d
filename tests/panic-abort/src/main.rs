//! Records tasks into a folder, and panics: where, the second argument says.

use runlore::{carry, telemetry_task};

#[telemetry_task]
fn works(n: u32) -> u32 {
    n + 1
}

#[telemetry_task]
fn panics() {
    works(1);
    panic!("no way on");
}

#[telemetry_task]
fn around() {
    panics();
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(place)) = (arguments.next(), arguments.next()) else {
        panic!("usage: panic-abort FOLDER PLACE")
    };
    if place == "with a hook before" {
        std::panic::set_hook(Box::new(|info| println!("hook: {info}")));
    }
    let _run = runlore::workflow("aborts").store(folder).start();
    if place == "with a hook after" {
        let ours = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            println!("hook: {info}");
            ours(info);
        }));
    }
    works(0);
    match place.as_str() {
        "in a thread" => {
            let busy = std::thread::spawn(carry(|| {
                loop {
                    works(2);
                }
            }));
            _ = std::thread::spawn(carry(around)).join();
            _ = busy.join();
        }
        "outside any task" => panic!("no way on"),
        _ => around(),
    }
}
