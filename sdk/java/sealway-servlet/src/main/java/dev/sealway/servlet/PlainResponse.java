package dev.sealway.servlet;

import dev.sealway.wire.Header;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.Charset;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;

/** The answer of a servlet before it is sealed: its status, headers and body are kept from the container. */
final class PlainResponse extends HttpServletResponseWrapper {
    /** The receiver of the body. */
    interface Sink {
        void write(byte[] data, int from, int length, boolean isFlush) throws IOException;

        /** Returns true if a part has gone out. */
        default boolean isBegun() {
            return false;
        }

        /** Forgets what has not gone out. */
        default void reset() {
        }
    }

    private final Sink sink;
    private final List<Header> headers = new ArrayList<>();
    private int status = 200;
    private String charset = "UTF-8";
    private boolean isClosed;
    private boolean isFinishing;
    private PrintWriter writer;

    PlainResponse(HttpServletResponse outer, Sink sink) {
        super(outer);
        this.sink = sink;
    }

    /** The headers so far. */
    List<Header> collected() {
        return List.copyOf(headers);
    }

    /** Says 500, and nothing more. */
    void fail() {
        reset();
        status = 500;
        isClosed = true;
    }

    /** Takes what a writer still holds, which is no flush of the servlet's own. */
    void finish() {
        isFinishing = true;
        if (writer != null) {
            writer.flush();
        }
    }

    @Override
    public void setStatus(int code) {
        status = code;
    }

    @Override
    public int getStatus() {
        return status;
    }

    @Override
    public void sendError(int code) {
        sendError(code, null);
    }

    @Override
    public void sendError(int code, String message) {
        resetBuffer();
        status = code;
        isClosed = true;
    }

    @Override
    public void sendRedirect(String location) {
        sendRedirect(location, SC_FOUND, true);
    }

    @Override
    public void sendRedirect(String location, int code, boolean isClearing) {
        resetBuffer();
        status = code;
        setHeader("Location", location);
        isClosed = true;
    }

    @Override
    public void setHeader(String name, String value) {
        headers.removeIf(header -> header.name().equalsIgnoreCase(name));
        addHeader(name, value);
    }

    @Override
    public void addHeader(String name, String value) {
        if (value != null) {
            headers.add(new Header(name.toLowerCase(Locale.ROOT), value));
        }
    }

    @Override
    public void setIntHeader(String name, int value) {
        setHeader(name, Integer.toString(value));
    }

    @Override
    public void addIntHeader(String name, int value) {
        addHeader(name, Integer.toString(value));
    }

    @Override
    public void setDateHeader(String name, long date) {
        setHeader(name, DateTimeFormatter.RFC_1123_DATE_TIME.format(Instant.ofEpochMilli(date).atOffset(ZoneOffset.UTC)));
    }

    @Override
    public void addDateHeader(String name, long date) {
        addHeader(name, DateTimeFormatter.RFC_1123_DATE_TIME.format(Instant.ofEpochMilli(date).atOffset(ZoneOffset.UTC)));
    }

    @Override
    public boolean containsHeader(String name) {
        return getHeader(name) != null;
    }

    @Override
    public String getHeader(String name) {
        return headers.stream().filter(header -> header.name().equalsIgnoreCase(name)).map(Header::value).findFirst().orElse(null);
    }

    @Override
    public Collection<String> getHeaders(String name) {
        return headers.stream().filter(header -> header.name().equalsIgnoreCase(name)).map(Header::value).toList();
    }

    @Override
    public Collection<String> getHeaderNames() {
        return headers.stream().map(Header::name).distinct().toList();
    }

    @Override
    public void addCookie(Cookie cookie) {
        StringBuilder out = new StringBuilder(cookie.getName()).append('=').append(cookie.getValue());
        for (Map.Entry<String, String> attribute : cookie.getAttributes().entrySet()) {
            boolean isFlag = attribute.getValue().isEmpty() || List.of("secure", "httponly").contains(attribute.getKey().toLowerCase(Locale.ROOT));
            out.append("; ").append(attribute.getKey()).append(isFlag ? "" : "=" + attribute.getValue());
        }
        addHeader("set-cookie", out.toString());
    }

    @Override
    public void setContentType(String type) {
        if (type == null) {
            headers.removeIf(header -> header.name().equalsIgnoreCase("content-type"));
            return;
        }
        setHeader("content-type", type);
        int at = type.toLowerCase(Locale.ROOT).indexOf("charset=");
        if (at >= 0) {
            charset = type.substring(at + 8).replace("\"", "").split(";", 2)[0].strip();
        }
    }

    @Override
    public void setLocale(Locale locale) {
        setHeader("content-language", locale.toLanguageTag());
    }

    @Override
    public void setTrailerFields(Supplier<Map<String, String>> supplier) {
        // Trailers have no place in a seal.
    }

    @Override
    public String getContentType() {
        return getHeader("content-type");
    }

    @Override
    public void setCharacterEncoding(String name) {
        charset = name;
    }

    @Override
    public String getCharacterEncoding() {
        return charset;
    }

    @Override
    public void setContentLength(int length) {
        // The length of a sealed body is another one.
    }

    @Override
    public void setContentLengthLong(long length) {
        // The length of a sealed body is another one.
    }

    @Override
    public ServletOutputStream getOutputStream() {
        return new Output();
    }

    @Override
    public PrintWriter getWriter() {
        if (writer == null) {
            writer = new PrintWriter(new OutputStreamWriter(getOutputStream(), Charset.forName(charset)));
        }
        return writer;
    }

    @Override
    public void flushBuffer() throws IOException {
        if (writer != null) {
            writer.flush();
        }
        sink.write(new byte[0], 0, 0, true);
    }

    @Override
    public boolean isCommitted() {
        return sink.isBegun();
    }

    @Override
    public void reset() {
        resetBuffer();
        headers.clear();
        status = 200;
    }

    @Override
    public void resetBuffer() {
        if (sink.isBegun()) {
            throw new IllegalStateException("the answer has begun");
        }
        sink.reset();
    }

    private final class Output extends ServletOutputStream {
        @Override
        public boolean isReady() {
            return true;
        }

        @Override
        public void setWriteListener(WriteListener listener) {
            throw new IllegalStateException("a sealed answer is written blocking");
        }

        @Override
        public void write(int b) throws IOException {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] data, int from, int length) throws IOException {
            if (!isClosed) {
                sink.write(data, from, length, false);
            }
        }

        @Override
        public void flush() throws IOException {
            if (!isClosed && !isFinishing) {
                sink.write(new byte[0], 0, 0, true);
            }
        }
    }
}
