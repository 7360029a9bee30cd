//! What a section on lists of an API means to its backend.

use millstream_polling::backends::{HttpJsonSettings, HttpStream, Pages, Since, Token};

use crate::config::{HttpJsonSection, HttpStreamSection, PagesSection};

impl HttpJsonSection {
    /// The backend's settings.
    pub(crate) fn settings(&self) -> HttpJsonSettings {
        let file = self.token_file.clone().map(Token::File);
        let settings = HttpJsonSettings::new(&self.url).with(|settings| {
            settings.token = self.token.clone().map(Token::Value).or(file);
            settings.headers = self.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            settings.timeout = self.timeout.0;
            settings.body_max = self.body_max.0;
            settings.items_max = self.items_max;
        });
        self.streams.iter().fold(settings, |settings, (name, stream)| settings.with_stream(stream.settings(name)))
    }
}

impl HttpStreamSection {
    fn settings(&self, name: &str) -> HttpStream {
        HttpStream::new(name, self.path.as_deref().unwrap_or(name), &self.key).with(|stream| {
            stream.items.clone_from(&self.items);
            stream.columns = self.columns.iter().map(|(name, kind)| (name.clone(), (*kind).into())).collect();
            stream.pages = self.pages.as_ref().map_or(Pages::One, PagesSection::pages);
            stream.reconciled = self.reconciled;
            stream.since = self.since.as_ref().map(|since| Since::new(&since.parameter, &since.field));
        })
    }
}

impl PagesSection {
    fn pages(&self) -> Pages {
        match self {
            Self::Next(at) => Pages::Next { at: at.clone() },
            Self::Link(_) => Pages::LinkHeader,
            Self::Token(token) => Pages::Token { at: token.at.clone(), parameter: token.parameter.clone() },
            Self::Number(number) => {
                let (first, step) = (number.first, number.step);
                Pages::Number { parameter: number.parameter.clone(), first, step }
            }
        }
    }
}
