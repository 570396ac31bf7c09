mod objects;
mod phases;
