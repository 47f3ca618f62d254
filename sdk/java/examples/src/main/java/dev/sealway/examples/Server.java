package dev.sealway.examples;

import dev.sealway.server.AuthorityStore;
import dev.sealway.server.RouteTable.Mode;
import dev.sealway.server.RouteTable;
import dev.sealway.server.SealGate;
import dev.sealway.server.SessionStore;
import dev.sealway.servlet.SealwayFilter;
import dev.sealway.wire.UsageException;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServlet;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import org.eclipse.jetty.ee11.servlet.FilterHolder;
import org.eclipse.jetty.ee11.servlet.ServletContextHandler;
import org.eclipse.jetty.ee11.servlet.ServletHolder;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.ServerConnector;

/** The demo purchase service behind the servlet filter. {@code server}. */
public final class Server {
    private static final int IDLE_MS = 30_000;

    private Server() {
    }

    /** Runs it until SIGTERM. */
    public static void main(String[] args) {
        Environment.run(() -> {
            int port = Environment.number("PORT", Environment.get("PORT", "3100"), 0, 65_535);
            String secret = Environment.get("AUTHORITY_SECRET_FILE", null);
            if (secret == null) {
                throw new Environment.ArgumentException("AUTHORITY_SECRET_FILE: expected the file with the authority's secret");
            }
            AuthorityStore store;
            try {
                store = AuthorityStore.withSecretFile(Environment.url("AUTHORITY_URL", "http://localhost:3000"), Path.of(secret),
                        Duration.ofSeconds(5));
            } catch (IOException | UsageException unusable) {
                throw new Environment.ArgumentException("AUTHORITY_SECRET_FILE or AUTHORITY_URL: " + unusable.getMessage());
            }
            org.eclipse.jetty.server.Server server = start(port, store, new Purchase());
            System.out.println("listening http://127.0.0.1:" + ((ServerConnector) server.getConnectors()[0]).getLocalPort());
            server.join();
            return true;
        });
    }

    /** Starts Jetty on 127.0.0.1 with these servlets behind the filter. */
    static org.eclipse.jetty.server.Server start(int port, SessionStore store, HttpServlet purchase) throws Exception {
        RouteTable routes = new RouteTable().prefix("/transaction/", Mode.REQUIRED).path("/health", Mode.OFF);
        SealGate gate = SealGate.builder(store, routes).anonymousPaths(Set.of("/transaction/purchase")).build();
        return start(port, new SealwayFilter(gate), purchase);
    }

    static org.eclipse.jetty.server.Server start(int port, SealwayFilter filter, HttpServlet purchase) throws Exception {
        org.eclipse.jetty.server.Server server = new org.eclipse.jetty.server.Server();
        HttpConfiguration http = new HttpConfiguration();
        http.setSendServerVersion(false);
        http.setIdleTimeout(IDLE_MS);
        http.setRequestHeaderSize(32_768);
        http.setResponseHeaderSize(32_768);
        ServerConnector connector = new ServerConnector(server, new HttpConnectionFactory(http));
        connector.setHost("127.0.0.1");
        connector.setPort(port);
        connector.setIdleTimeout(IDLE_MS);
        server.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler();
        context.addFilter(new FilterHolder(filter), "/*", EnumSet.of(DispatcherType.REQUEST));
        context.addServlet(new ServletHolder(new Health()), "/health");
        context.addServlet(new ServletHolder(purchase), "/transaction/*");
        server.setHandler(context);
        server.setStopAtShutdown(true);
        server.start();
        return server;
    }
}
