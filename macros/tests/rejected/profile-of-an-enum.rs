use runlore::ml::ModelProfile;

#[derive(ModelProfile)]
enum Model {
    Small,
    Large,
}

#[derive(ModelProfile)]
#[profile(tensor = runlore)]
struct Net;

fn main() {}
