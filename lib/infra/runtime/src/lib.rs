//! What a controller process is made of: client, watches, lease, TLS, metrics, logs.
