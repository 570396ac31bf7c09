//! Holds the namespaces of a pod and does nothing.

fn main() {
    loop {
        std::thread::park();
    }
}
