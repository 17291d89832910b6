# koze's guest is the first process of the container, and the Durable Object reaches it at this port.
COPY --chmod=0755 __KOZE_GUEST__ /.koze/guest
__KOZE_DIRECTORIES__EXPOSE 5693
STOPSIGNAL SIGTERM
ENTRYPOINT __KOZE_ENTRYPOINT__
CMD []
