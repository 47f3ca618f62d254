package dev.sealway.servlet;

import dev.sealway.wire.Header;
import dev.sealway.wire.HeaderList;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.ReadListener;
import jakarta.servlet.ServletInputStream;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpSession;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** The request inside a seal; or one that is passed on, without the headers that a client may not say. */
final class PlainRequest extends HttpServletRequestWrapper {
    private final HeaderList headers;
    private final InputStream body;

    /** @param body null where it is passed on as it comes */
    PlainRequest(HttpServletRequest outer, List<Header> headers, InputStream body) {
        super(outer);
        this.headers = new HeaderList(headers);
        this.body = body;
    }

    @Override
    public String getHeader(String name) {
        return headers.first(name);
    }

    @Override
    public Enumeration<String> getHeaders(String name) {
        return Collections.enumeration(headers.list().stream().filter(header -> header.name().equalsIgnoreCase(name))
                .map(Header::value).toList());
    }

    @Override
    public Enumeration<String> getHeaderNames() {
        Set<String> names = new LinkedHashSet<>();
        headers.forEach(header -> names.add(header.name().toLowerCase(Locale.ROOT)));
        return Collections.enumeration(names);
    }

    /** Those within the seal: a container has read the ones outside, which anybody on the path could have written. */
    @Override
    public Cookie[] getCookies() {
        if (body == null) {
            return super.getCookies();
        }
        List<Cookie> out = new ArrayList<>();
        for (Header header : headers) {
            if (!header.name().equalsIgnoreCase("cookie")) {
                continue;
            }
            for (String pair : header.value().split(";")) {
                int at = pair.indexOf('=');
                try {
                    if (at > 0) {
                        out.add(new Cookie(pair.substring(0, at).strip(), pair.substring(at + 1).strip()));
                    }
                } catch (IllegalArgumentException unnameable) {
                    // As a container does: what is no cookie is passed over.
                    continue;
                }
            }
        }
        return out.isEmpty() ? null : out.toArray(Cookie[]::new);
    }

    /** A container finds its session by a cookie or a path outside the seal, and says a new one's id there. */
    @Override
    public HttpSession getSession(boolean isMade) {
        if (body == null) {
            return super.getSession(isMade);
        }
        if (isMade) {
            throw new IllegalStateException("a sealed request has no session of the container: X-Sealway-Client-Id says whose it is");
        }
        return null;
    }

    @Override
    public HttpSession getSession() {
        return getSession(true);
    }

    @Override
    public String getRequestedSessionId() {
        return body == null ? super.getRequestedSessionId() : null;
    }

    @Override
    public boolean isRequestedSessionIdValid() {
        return body == null && super.isRequestedSessionIdValid();
    }

    @Override
    public boolean isRequestedSessionIdFromCookie() {
        return body == null && super.isRequestedSessionIdFromCookie();
    }

    @Override
    public boolean isRequestedSessionIdFromURL() {
        return body == null && super.isRequestedSessionIdFromURL();
    }

    @Override
    public String changeSessionId() {
        if (body != null) {
            throw new IllegalStateException("a sealed request has no session of the container");
        }
        return super.changeSessionId();
    }

    @Override
    public int getIntHeader(String name) {
        String value = getHeader(name);
        return value == null ? -1 : Integer.parseInt(value);
    }

    @Override
    public long getDateHeader(String name) {
        String value = getHeader(name);
        return value == null ? -1 : ZonedDateTime.parse(value, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant().toEpochMilli();
    }

    /** Trailers stand outside the seal. */
    @Override
    public Map<String, String> getTrailerFields() {
        return body == null ? super.getTrailerFields() : Map.of();
    }

    @Override
    public String getContentType() {
        return body == null ? super.getContentType() : getHeader("content-type");
    }

    @Override
    public int getContentLength() {
        return body == null ? super.getContentLength() : -1;
    }

    @Override
    public long getContentLengthLong() {
        return body == null ? super.getContentLengthLong() : -1;
    }

    @Override
    public String getCharacterEncoding() {
        if (body == null) {
            return super.getCharacterEncoding();
        }
        String type = getContentType();
        int at = type == null ? -1 : type.toLowerCase(Locale.ROOT).indexOf("charset=");
        return at < 0 ? null : type.substring(at + 8).replace("\"", "").split(";", 2)[0].strip();
    }

    @Override
    public ServletInputStream getInputStream() throws IOException {
        return body == null ? super.getInputStream() : new Input(body);
    }

    @Override
    public BufferedReader getReader() throws IOException {
        if (body == null) {
            return super.getReader();
        }
        String name = getCharacterEncoding();
        return new BufferedReader(new InputStreamReader(body, name == null ? StandardCharsets.UTF_8 : Charset.forName(name)));
    }

    @Override
    public boolean isAsyncSupported() {
        return body == null && super.isAsyncSupported();
    }

    @Override
    public AsyncContext startAsync() {
        if (body != null) {
            throw new IllegalStateException("a sealed request is not served asynchronously");
        }
        return super.startAsync();
    }

    @Override
    public AsyncContext startAsync(ServletRequest request, ServletResponse response) {
        if (body != null) {
            throw new IllegalStateException("a sealed request is not served asynchronously");
        }
        return super.startAsync(request, response);
    }

    private static final class Input extends ServletInputStream {
        private final InputStream source;
        private boolean isFinished;

        Input(InputStream source) {
            this.source = source;
        }

        @Override
        public boolean isFinished() {
            return isFinished;
        }

        @Override
        public boolean isReady() {
            return true;
        }

        @Override
        public void setReadListener(ReadListener listener) {
            throw new IllegalStateException("a sealed request is read blocking");
        }

        @Override
        public int read() throws IOException {
            int read = source.read();
            isFinished |= read < 0;
            return read;
        }

        @Override
        public int read(byte[] out, int from, int length) throws IOException {
            int read = source.read(out, from, length);
            isFinished |= read < 0;
            return read;
        }
    }
}
