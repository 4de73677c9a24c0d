//! What records say of the function that a task is, where its module and its name do not say it all.

use runlore::record::TaskObject;
use runlore::telemetry_task;

use super::support::{record, the};

struct Trainer;

trait Step {
    fn step(&self);
}

impl Trainer {
    #[telemetry_task]
    fn epoch(&self) {
        self.step();
    }

    #[telemetry_task]
    async fn later(&self) {}
}

impl Step for Trainer {
    #[telemetry_task]
    fn step(&self) {}
}

struct Of<T>(T);

impl<T: Copy> Of<T> {
    #[telemetry_task(skip_all)]
    fn get(&self) -> T {
        self.0
    }
}

#[telemetry_task]
fn plain() {}

#[telemetry_task(name = "another")]
fn renamed() {}

fn function(task: &TaskObject) -> Option<&str> {
    task.code.as_ref().unwrap().function.as_deref()
}

#[test]
fn methods_are_recorded_with_their_type() {
    let store = record(|| {
        Trainer.epoch();
        _ = Of(1).get();
        plain();
        renamed();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Trainer.later());
    });
    let here = module_path!();
    let of = |name: &str| function(&the(&store, name)).map(|path| path.replace(here, "here"));
    assert_eq!(of("epoch").as_deref(), Some("here::Trainer::epoch"));
    assert_eq!(of("later").as_deref(), Some("here::Trainer::later"));
    assert_eq!(of("step").as_deref(), Some("<here::Trainer as here::Step>::step"));
    // How a type's parameter is spelt is the compiler's affair.
    let get = of("get").unwrap();
    assert!(get.starts_with("here::Of<") && get.ends_with(">::get"), "{get}");
    assert_eq!(of("another").as_deref(), Some("here::renamed"));
    assert_eq!(of("plain"), None, "its module and its name say it");
}
