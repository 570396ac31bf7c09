//! OCI images: references, pulling, unpacking, packing.
