use async_trait::async_trait;
use runlore::telemetry_task;

#[async_trait]
trait Store {
    async fn get(&self, key: &str) -> Result<String, String>;

    #[telemetry_task]
    async fn get_twice(&self, key: &str) -> Result<String, String> {
        let first = self.get(key).await?;
        Ok(first + &self.get(key).await?)
    }

    async fn put(&mut self, key: String, value: String);
}

struct Memory(Vec<(String, String)>);

#[async_trait]
impl Store for Memory {
    #[telemetry_task(used(entries = self.0.len()))]
    async fn get(&self, key: &str) -> Result<String, String> {
        tokio::task::yield_now().await;
        match self.0.iter().find(|(name, _)| name == key) {
            Some((_, value)) => Ok(value.clone()),
            None => Err(format!("no {key}")),
        }
    }

    #[telemetry_task(skip(value), metadata(kind = "memory"))]
    async fn put(&mut self, key: String, value: String) {
        self.0.push((key, value));
    }
}

#[async_trait(?Send)]
trait Local {
    #[telemetry_task(output = "sum")]
    async fn sum(&self, (a, b): (i32, i32), _: u8) -> i32 {
        a + b
    }
}

#[async_trait(?Send)]
impl Local for Memory {}

#[tokio::test(flavor = "multi_thread")]
async fn runs() {
    let mut memory = Memory(Vec::new());
    memory.put("a".to_owned(), "1".to_owned()).await;
    assert_eq!(memory.sum((1, 2), 0).await, 3);
    let task = tokio::spawn(async move {
        assert_eq!(memory.get_twice("a").await.unwrap(), "11");
        memory.get("b").await.unwrap_err()
    });
    assert_eq!(task.await.unwrap(), "no b");
}
