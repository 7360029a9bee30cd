//! How a Postgres is reached, from what the file says of it.

use millstream_postgres::{Password, PostgresSettings, TlsMode};

use super::{PostgresSection, TlsSection};

impl PostgresSection {
    /// How to reach the database. The section was checked, so that its parts fit together.
    ///
    /// # Errors
    /// When a URL can't be used; the URL is not shown.
    pub fn settings(&self) -> millstream_core::Result<PostgresSettings> {
        let mut settings: PostgresSettings = match &self.url {
            Some(url) => url.expose().parse()?,
            None => "postgres://postgres@localhost/postgres".parse()?,
        };
        if let Some(host) = &self.host {
            settings.host.clone_from(host);
        }
        if let Some(port) = self.port {
            settings.port = port;
        }
        if let Some(user) = &self.user {
            settings.user.clone_from(user);
            settings.database.clone_from(self.database.as_ref().unwrap_or(user));
        }
        self.refine(&mut settings);
        Ok(settings)
    }

    /// How to reach the standby that documents are read from; `None`: they are read where the log is.
    ///
    /// # Errors
    /// When the URL can't be used; it is not shown.
    pub fn read_settings(&self) -> millstream_core::Result<Option<PostgresSettings>> {
        let Some(url) = &self.read_url else { return Ok(None) };
        let mut settings: PostgresSettings = url.expose().parse()?;
        self.refine(&mut settings);
        Ok(Some(settings))
    }

    /// What is said once for both.
    fn refine(&self, settings: &mut PostgresSettings) {
        match (&self.password, &self.password_file) {
            (Some(password), _) => settings.password = Password::Fixed(password.clone()),
            (None, Some(file)) => settings.password = Password::File(file.clone()),
            (None, None) => {}
        }
        if let Some(tls) = self.tls {
            settings.tls = tls.into();
        }
        if self.tls_root.is_some() {
            settings.tls_root.clone_from(&self.tls_root);
        }
        if let Some(search_path) = &self.search_path {
            settings.search_path.clone_from(search_path);
        }
    }
}

impl From<TlsSection> for TlsMode {
    fn from(tls: TlsSection) -> Self {
        match tls {
            TlsSection::Disable => Self::Disable,
            TlsSection::Prefer => Self::Prefer,
            TlsSection::Require => Self::Require,
            TlsSection::VerifyCa => Self::VerifyCa,
            TlsSection::VerifyFull => Self::VerifyFull,
        }
    }
}
