//! The server and database: a URI, combined with the settings.

use std::fmt;
use std::time::Duration;

use mongodb::options::{
    ClientOptions, ConnectionString, Credential, ServerMonitoringMode, Tls, TlsOptions,
};

use super::problem::scrubbed;
use runlore_core::settings::MongodbSettings;
use runlore_core::{Error, ErrorKind, Result};

/// How long to search for a server. This keeps the wait for a wrong host name short.
const SELECTION: Duration = Duration::from_secs(3);
const CONNECTING: Duration = Duration::from_secs(5);

/// Returns the URI from the settings, without secrets.
pub(crate) fn uri_of(settings: &MongodbSettings) -> String {
    match &settings.uri {
        Some(uri) => uri.clone(),
        None => format!("mongodb://{}:{}/{}", settings.host, settings.port, settings.db),
    }
}

/// A database on a server.
#[derive(Clone)]
pub(super) struct Address {
    uri: String,
    settings: MongodbSettings,
    parsed: ConnectionString,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.shown()).finish()
    }
}

impl Address {
    /// Parses a URI.
    ///
    /// # Errors
    ///
    /// Returns an error if the URI is not a MongoDB URI.
    pub(super) fn new(uri: &str, settings: &MongodbSettings) -> Result<Self> {
        let parsed = ConnectionString::parse(uri).map_err(|error| {
            let shown = runlore_core::record::scrub(uri);
            let why = scrubbed(&error);
            let text = format!(
                "`{shown}` names no MongoDB server: write `mongodb://host:27017/database` ({why})"
            );
            Error::new(ErrorKind::Store, text)
        })?;
        Ok(Self { uri: uri.to_owned(), settings: settings.clone(), parsed })
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the URI for messages, without secrets.
    pub(super) fn shown(&self) -> String {
        runlore_core::record::scrub(&self.uri)
    }

    pub(super) fn database(&self) -> &str {
        self.parsed.default_database.as_deref().unwrap_or(&self.settings.db)
    }

    pub(super) fn makes_indexes(&self) -> bool {
        self.settings.create_collection_index
    }

    /// Returns the driver's options. Must be awaited on the runtime that the driver will use.
    pub(super) async fn options(&self) -> Result<ClientOptions> {
        let mut options = ClientOptions::parse(self.parsed.clone())
            .await
            .map_err(|error| super::problem::explain(&self.shown(), &error))?;
        options.app_name.get_or_insert_with(|| "runlore".to_owned());
        options.server_selection_timeout.get_or_insert(SELECTION);
        options.connect_timeout.get_or_insert(CONNECTING);
        options.max_pool_size.get_or_insert(4);
        // Polling saves one connection for each of many writers.
        options.server_monitoring_mode.get_or_insert(ServerMonitoringMode::Poll);
        // The secrets in the settings are for the server of the settings only.
        if self.uri == uri_of(&self.settings) {
            self.add_settings(&mut options)?;
        }
        Ok(options)
    }

    fn add_settings(&self, options: &mut ClientOptions) -> Result<()> {
        let settings = &self.settings;
        if let (Some(username), None) = (&settings.username, &options.credential) {
            let mut credential = Credential::default();
            credential.username = Some(username.clone());
            credential.password = self.password()?;
            options.credential = Some(credential);
        }
        if settings.tls && options.tls.is_none() {
            let mut tls = TlsOptions::default();
            tls.ca_file_path = settings.tls_ca_file.clone();
            tls.cert_key_file_path = settings.tls_certificate_key_file.clone();
            options.tls = Some(Tls::Enabled(tls));
        }
        Ok(())
    }

    fn password(&self) -> Result<Option<String>> {
        let Some(name) = &self.settings.password_env else { return Ok(None) };
        std::env::var(name).map(Some).map_err(|_| {
            let text = format!(
                "databases.mongodb.password_env names the variable {name}, which is not set: set it to the password"
            );
            Error::new(ErrorKind::Settings, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlore_core::settings::Settings;

    fn settings() -> MongodbSettings {
        Settings::default().databases.mongodb
    }

    #[test]
    fn a_uri_names_the_database_or_the_settings_do() {
        let database = |uri: &str| Address::new(uri, &settings()).unwrap().database().to_owned();
        assert_eq!(database("mongodb://a,b:27018/lab?replicaSet=r"), "lab");
        assert_eq!(database("mongodb://a"), "runlore");
    }

    #[test]
    fn a_password_is_never_shown() {
        let address = Address::new("mongodb://ann:hunter2@host/db", &settings()).unwrap();
        assert!(!format!("{address:?}{}", address.shown()).contains("hunter2"));
        for wrong in
            ["mongodb://ann:hunter2@/db", "mongodb://ann:hunt@er2@host:99999/db", "mongodb://"]
        {
            let told = Address::new(wrong, &settings()).unwrap_err().to_string();
            assert!(!told.contains("hunter2") && !told.contains("hunt@er2"), "{told}");
        }
    }
}
