use runlore::telemetry_task;

trait Shape {
    const SIDES: u32;

    fn area(&self) -> f64;

    #[telemetry_task(used(area = self.area()))]
    fn doubled(&self) -> f64 {
        self.area() * 2.0
    }

    #[telemetry_task]
    fn sides() -> u32
    where
        Self: Sized,
    {
        Self::SIDES
    }

    #[telemetry_task]
    async fn doubled_later(&self, by: f64) -> f64 {
        self.doubled() * by
    }
}

struct Square(f64);

impl Shape for Square {
    const SIDES: u32 = 4;

    #[telemetry_task]
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}

#[tokio::test]
async fn runs() {
    assert_eq!(Square(2.0).doubled(), 8.0);
    assert_eq!(Square::sides(), 4);
    assert_eq!(Square(2.0).doubled_later(0.5).await, 4.0);
}
