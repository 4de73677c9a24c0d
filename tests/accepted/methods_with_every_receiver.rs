use runlore::telemetry_task;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
struct Counter {
    count: u32,
    names: Vec<String>,
}

impl Counter {
    #[telemetry_task]
    fn new(count: u32) -> Self {
        Self { count, names: vec!["first".to_owned()] }
    }

    #[telemetry_task(used(self))]
    fn get(&self) -> u32 {
        self.count
    }

    #[telemetry_task]
    fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    #[telemetry_task(used(before = self.count))]
    fn add(&mut self, by: u32) -> &mut u32 {
        self.count += by;
        &mut self.count
    }

    #[telemetry_task]
    fn chain(&mut self) -> &mut Self {
        self.count += 1;
        self
    }

    #[telemetry_task(used(self, count = self.count))]
    fn into_count(self) -> u32 {
        self.count
    }

    #[telemetry_task]
    fn changed(mut self) -> Self {
        self.count = 0;
        self
    }

    #[telemetry_task(used(self))]
    fn shared(self: Arc<Self>) -> u32 {
        self.count
    }

    #[telemetry_task]
    fn boxed(self: Box<Self>) -> u32 {
        self.count
    }

    #[telemetry_task]
    fn by_rc(self: &Rc<Self>) -> u32 {
        self.count
    }

    #[telemetry_task]
    fn pinned(self: Pin<&mut Self>, by: u32) -> u32 {
        let this = self.get_mut();
        this.count += by;
        this.count
    }

    #[telemetry_task(used(self))]
    async fn get_later(&self) -> u32 {
        self.count
    }

    #[telemetry_task]
    async fn add_later(&mut self, by: u32) -> &mut u32 {
        self.count += by;
        &mut self.count
    }
}

#[tokio::test]
async fn runs() {
    let mut counter = Counter::new(1);
    assert_eq!(counter.get(), 1);
    assert_eq!(counter.name(0), "first");
    *counter.add(2) += 1;
    counter.chain().chain();
    assert_eq!(counter.get(), 6);
    assert_eq!(Pin::new(&mut counter).pinned(1), 7);
    assert_eq!(counter.get_later().await, 7);
    *counter.add_later(1).await += 1;
    assert_eq!(counter.clone().into_count(), 9);
    assert_eq!(counter.clone().changed().count, 0);
    assert_eq!(Arc::new(counter.clone()).shared(), 9);
    assert_eq!(Box::new(counter.clone()).boxed(), 9);
    assert_eq!(Rc::new(counter).by_rc(), 9);
}
