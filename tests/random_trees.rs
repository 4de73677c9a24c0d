//! Random trees of tasks, sync and async, on several threads: every link is right.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;

use proptest::prelude::*;
use runlore::record::Status;
use runlore::store::MemoryStore;
use runlore::{FutureExt as _, carry, current_task_id, task, telemetry_task};

/// How a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Annotated,
    Block,
    Thread,
    AsyncInline,
    AsyncSpawned,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Well,
    Error,
    Panic,
}

#[derive(Debug, Clone)]
struct Node {
    how: How,
    ending: Ending,
    children: Vec<Node>,
}

fn node() -> impl Strategy<Value = Node> {
    let how = prop_oneof![
        4 => Just(How::Annotated),
        2 => Just(How::Block),
        1 => Just(How::Thread),
        2 => Just(How::AsyncInline),
        1 => Just(How::AsyncSpawned),
    ];
    let ending =
        prop_oneof![6 => Just(Ending::Well), 1 => Just(Ending::Error), 1 => Just(Ending::Panic)];
    let leaf = (how.clone(), ending.clone()).prop_map(|(how, ending)| Node {
        how,
        ending,
        children: Vec::new(),
    });
    leaf.prop_recursive(5, 40, 5, move |inner| {
        (how.clone(), ending.clone(), prop::collection::vec(inner, 0..5))
            .prop_map(|(how, ending, children)| Node { how, ending, children })
    })
}

/// What each task said of itself while it ran: its id, that of the task around it, and how it was to end.
type Ledger = Mutex<HashMap<String, (Option<String>, Ending)>>;

fn note(ledger: &Ledger, around: Option<String>, ending: Ending) -> Option<String> {
    let id = current_task_id().unwrap().to_string();
    ledger.lock().unwrap().insert(id.clone(), (around, ending));
    Some(id)
}

fn conclude(ending: Ending) -> Result<(), String> {
    match ending {
        Ending::Well => Ok(()),
        Ending::Error => Err("as planned".to_owned()),
        Ending::Panic => std::panic::resume_unwind(Box::new("as planned")),
    }
}

#[telemetry_task(skip_all)]
fn annotated(node: &Node, around: Option<String>, ledger: &'static Ledger) -> Result<(), String> {
    let id = note(ledger, around, node.ending);
    children(node, &id, ledger);
    conclude(node.ending)
}

#[telemetry_task(skip_all)]
async fn annotated_async(
    node: Node,
    around: Option<String>,
    ledger: &'static Ledger,
) -> Result<(), String> {
    let id = note(ledger, around, node.ending);
    tokio::task::yield_now().await;
    children_async(&node, &id, ledger).await;
    conclude(node.ending)
}

fn run(node: &Node, around: &Option<String>, ledger: &'static Ledger) {
    let around = around.clone();
    _ = catch_unwind(AssertUnwindSafe(|| match node.how {
        How::Block => task("block").try_run(|| {
            let id = note(ledger, around, node.ending);
            children(node, &id, ledger);
            conclude(node.ending).map_err(std::io::Error::other)
        }),
        How::Thread => {
            let node = node.clone();
            let thread = std::thread::spawn(carry(move || annotated(&node, around, ledger)));
            _ = thread.join();
            Ok(())
        }
        _ => {
            _ = annotated(node, around, ledger);
            Ok(())
        }
    }));
}

fn children(node: &Node, id: &Option<String>, ledger: &'static Ledger) {
    for child in &node.children {
        run(child, id, ledger);
        assert_eq!(current_task_id().map(|id| id.to_string()), *id, "the parent is restored");
    }
}

fn children_async<'a>(
    node: &'a Node,
    id: &'a Option<String>,
    ledger: &'static Ledger,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(async move {
        for child in &node.children {
            let future = annotated_async(child.clone(), id.clone(), ledger);
            match child.how {
                How::AsyncSpawned | How::Thread => _ = tokio::spawn(future.in_current()).await,
                How::Block => run(child, id, ledger),
                // A panic must stay with its own future.
                _ => _ = tokio::spawn(future.in_current()).await,
            }
            tokio::task::yield_now().await;
            assert_eq!(current_task_id().map(|id| id.to_string()), *id, "the parent is restored");
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_link_is_right(forest in prop::collection::vec(node(), 1..4)) {
        let ledger: &'static Ledger = Box::leak(Box::default());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let store = MemoryStore::new();
        let workflow = runlore::workflow("random").without_catalogue();
        let workflow = workflow.store(store.clone()).start().unwrap();
        for tree in &forest {
            match tree.how {
                How::AsyncInline | How::AsyncSpawned => {
                    let future = annotated_async(tree.clone(), None, ledger);
                    _ = runtime.block_on(async { tokio::spawn(future.in_current()).await });
                }
                _ => run(tree, &None, ledger),
            }
        }
        workflow.finish().unwrap();

        let expected = ledger.lock().unwrap();
        let tasks = store.tasks();
        prop_assert_eq!(tasks.len(), expected.len());
        for task in tasks {
            let (around, ending) = &expected[&task.task_id];
            prop_assert_eq!(&task.parent_task_id, around);
            let status = if *ending == Ending::Well { Status::Finished } else { Status::Error };
            prop_assert_eq!(task.status, Some(status));
        }
    }
}
